"""Tables of many jobs, of untrusted text and on narrow terminals. Apart from test_list_and_status.py, whose tests need
to know every job of their daemon."""

import re
from pathlib import Path

from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process
from tests.rpc.test_job_wait import twin


def test_more_than_a_page_is_followed_to_its_end(line: Line, daemon: Process) -> None:
    many = [{"job_type": "semantica.noop", "user_tag": "many"}] * 450
    made = [ack["job_id"] for ack in daemon.call("job.enqueue_many", jobs=many)["jobs"]]
    assert line("list", "-q", "-t", "many", "--all").out.split() == made[::-1]
    assert line("list", "-q", "-t", "many", "-n", "250").out.split() == made[:-251:-1]
    result = line("list", "-t", "many")
    assert len(result.out.splitlines()) == 21
    assert "--all shows the rest" in result.err


def test_words_of_a_job_cannot_paint_the_terminal(line: Line, daemon: Process) -> None:
    daemon.call("job.enqueue", job_type="semantica.noop", subject_key="x\x1b[31m\ny", user_tag="paint")
    for words in (("list", "-t", "paint"), ("status",), ("show", "-q", "@last")):
        assert "\x1b" not in line(*words).out
    assert len(line("list", "-t", "paint").out.splitlines()) == 2


def test_without_rich_a_terminal_gets_plain_text(line: Line, tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ImportError")
    result = line.on_terminal("queue", PYTHONPATH=str(tmp_path))
    assert (result.code, result.out.split()[0]) == (0, "QUEUE")


def test_on_a_terminal_only_the_command_gives_way(line: Line) -> None:
    made = line("add", "--after", "1h", "-t", "long", "--", "echo", "x" * 300).out
    result = line.on_terminal("list", "-t", "long", NO_COLOR="1")
    assert made[:8] in result.out
    assert "SCHEDULED" in result.out
    assert "x…" in result.out
    assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", row)) <= 100 for row in result.out.splitlines())
    line("cancel", "-t", "long")


@each_case("columns", ["120", "80", "60", "30"])
def test_on_a_narrow_terminal_columns_are_left_out_and_ids_never_cut(line: Line, columns: str) -> None:
    words = (
        "--after",
        "1h",
        "-t",
        "narrow",
        "-s",
        "/a/long/path/to/a/subject",
        "--type",
        "typed",
        "-Q",
        "a.long.queue",
    )
    made = line("add", *words, "--", "echo", "x" * 300).out
    result = line.on_terminal("list", "-t", "narrow", NO_COLOR="1", COLUMNS=columns).out
    assert made[:8] in result
    assert "SCHEDULED" in result
    assert ("…/long/path/to/a/subject" in result) == (columns == "120")
    line("cancel", "-t", "narrow")


@each_case(
    ("words", "starts"),
    [
        (("--when-idle",), "when idle"),
        (("--on-event", "git:commit"), "after event git:commit"),
        (("--on-event", "git:commit=main"), "after event git:commit=main"),
        (("-Q", "held"), "when resumed"),
    ],
)
def test_a_waiting_job_has_a_column_for_what_it_waits_for(line: Line, words: tuple[str, ...], starts: str) -> None:
    line("queue", "pause", "--create", "held")
    line("add", "-t", "waits", *words, "--", "true")
    for command in (("list", "-t", "waits", "--state", "waiting"), ("status",)):
        assert f"  {starts}  " in line(*command).out
    line("cancel", "-t", "waits")


def test_the_type_is_shown_where_it_says_something_else_than_the_command(line: Line) -> None:
    line("add", "--after", "1h", "-t", "untyped", "-s", "x", "--", "sh", "-c", "true")
    assert "TYPE" not in line("list", "-t", "untyped").out
    line("add", "--after", "1h", "--type", "backup", "-t", "typed", "--", "true")
    rows = [row.split() for row in line("list", "-t", "typed").out.splitlines()]
    assert (rows[0][3], rows[1][3]) == ("TYPE", "backup")


def test_jobs_are_found_by_text_time_schedule_and_failure(line: Line) -> None:
    line("run", "-t", "found", "--", "sh", "-c", "exit 3 # Needle")
    failed = line("show", "-q", "@last").out
    line("add", "--every", "@yearly", "--name", "yearly", "-t", "found", "--", "true")
    fired = line("schedule", "trigger", "-q", "yearly").out
    assert line("list", "-q", "-t", "found", "--grep", "3 # needle").out == failed
    assert line("list", "-q", "-t", "found", "--failed").out == failed
    assert line("list", "-q", "--schedule", "yearly").out == fired
    assert line("list", "-q", "-t", "found", "--since", "1h").out == fired + failed
    assert line("list", "-q", "-t", "found", "--since", "0s").out == ""
    assert line("list", "--schedule", "nosuch").code == 65
    assert "is not a time in the past" in line("list", "--since", "in 5m").err


def test_an_ambiguous_prefix_lists_its_candidates(home: Path, tmp_path: Path) -> None:
    line = Line(home, tmp_path)
    with Process(home).start():
        first = line("add", "--after", "1h", "--", "true").out.strip()
        second = f"{first[:9]}{'1' if first[9] == '0' else '0'}000-4000-8000-000000000000"
        twin(home, first, second)
        candidates = [job_id[:10] for job_id in sorted([first, second])]
        for command in ("show", "logs", "wait", "cancel", "why"):
            result = line(command, first[:8])
            assert (result.code, f"{first[:8]} begins the id of more than one job" in result.err) == (65, True)
            assert f"give more characters: {', '.join(candidates)}" in result.err


def test_a_watched_list_is_shown_again_when_a_job_changes(line: Line) -> None:
    watch = line.start_on_terminal("list", "--watch", "-t", "watched", NO_COLOR="1")
    watch.until("no job matches")
    job_id = line("add", "--after", "1h", "-t", "watched", "--", "true").out.strip()
    watch.until(f"{job_id[:8]}  SCHEDULED")
    line("run", "-t", "other", "--", "true")
    line("cancel", job_id)
    shown = watch.until(f"{job_id[:8]}  CANCELLED")
    assert shown.count("\x1b[H\x1b[J") == 3, "a screen for each change"
    assert ("mADDED" in shown, "mAGE" in shown) == (True, False), "an age would be wrong after a while"
    watch.process.send_signal(2)
    assert watch.result().code == 130


def test_a_watched_list_as_json_is_a_line_for_each_change(line: Line) -> None:
    watch = line.start("list", "-w", "--json", "-Q", "watched.queue")
    watch.until("[]")
    line("run", "-Q", "watched.queue", "--", "true")
    watch.until('"state": "DONE"')
    watch.process.terminate()
    pages = watch.result().lines
    assert pages[0]["items"] == []
    assert pages[-1]["items"][0]["state"] == "DONE"
