"""`list`, `status`, `show`: jobs as tables for people, as ids for pipes, as JSON for programs."""

import json
import re
from pathlib import Path

import pytest

from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process


@pytest.fixture(scope="module")
def jobs(daemon: Process, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One of each kind, by name."""
    line = Line(daemon.home, tmp_path_factory.mktemp("jobs"))
    line("run", "-Q", "build", "-t", "red", "--", "sh", "-c", "echo 'a b' >&2; exit 3")
    failed = line("show", "-q", "@last").out.strip()
    return {
        "failed": failed,
        "later": line("add", "--after", "1h", "-g", "pair", "-s", "some::subject", "--", "true").out.strip(),
        "done": line("run", "-q", "--json", "--type", "semantica.echo", "--payload", '{"n": 1}').json["job_id"],
    }


def test_the_newest_come_first_with_what_a_person_wants(line: Line, jobs: dict[str, str]) -> None:
    result = line("list")
    rows = [re.split(r"  +", row) for row in result.out.splitlines()]
    assert rows[0] == ["ID", "STATE", "QUEUE", "WHAT", "SUBJECT", "TAG", "STARTS", "AGE", "TOOK", "EXIT"]
    assert [row[0] for row in rows[1:]] == [jobs[name][:8] for name in ("done", "later", "failed")]
    assert rows[3][1:6] == ["FAILED", "build", "sh -c 'echo '\"'\"'a b'\"'\"' >&2; exit 3'", "-", "red"]
    assert rows[3][-1] == "3"
    assert rows[2][1:5] == ["SCHEDULED", "default", "true", "some::subject"]
    assert re.fullmatch(r"\d\d:\d\d:\d\d( tomorrow)?", rows[2][6])
    assert rows[1][1:4] == ["DONE", "default", "semantica.echo"]


def test_there_is_no_colour_off_a_terminal(line: Line, jobs: dict[str, str]) -> None:
    for words in (("list",), ("status",), ("show", jobs["failed"]), ("queue",), ("events",)):
        assert "\x1b" not in line(*words, FORCE_COLOR="").out


def test_a_terminal_gets_a_table_by_rich(line: Line, jobs: dict[str, str]) -> None:
    result = line.on_terminal("list")
    assert result.code == 0
    assert "\x1b[31mFAILED" in result.out
    assert "STATE" in result.out
    assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", row)) <= 100 for row in result.out.splitlines())


def test_no_color_is_respected_on_a_terminal(line: Line, jobs: dict[str, str]) -> None:
    result = line.on_terminal("status", NO_COLOR="1")
    assert "FAILED" in result.out
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", result.out)


@each_case(
    ("words", "names"),
    [
        (("--state", "failed"), ["failed"]),
        (("--state", "Failed,done"), ["done", "failed"]),
        (("--state", "live"), ["later"]),
        (("--state", "waiting"), ["later"]),
        (("--state", "ended"), ["done", "failed"]),
        (("--state", "skipped"), []),
        (("-Q", "build"), ["failed"]),
        (("--queue", "build", "--queue", "default"), ["done", "later", "failed"]),
        (("--type", "sh"), ["failed"]),
        (("-t", "red"), ["failed"]),
        (("-g", "pair"), ["later"]),
        (("-s", "some::subject"), ["later"]),
        (("-n", "1"), ["done"]),
        (("-n", "1", "--all"), ["done", "later", "failed"]),
    ],
)
def test_filters_choose(line: Line, jobs: dict[str, str], words: tuple[str, ...], names: list[str]) -> None:
    assert line("list", "-q", *words).out.split() == [jobs[name] for name in names]
    items = line("ls", "--json", *words).json["items"]
    assert [item["job_id"] for item in items] == [jobs[name] for name in names]


def test_nothing_to_list_is_noted_on_stderr(line: Line) -> None:
    result = line("list", "-t", "nobody")
    assert (result.code, result.out) == (0, "")
    assert "no job matches" in result.err
    assert line("list", "-t", "nobody", "--json").json == {"items": [], "next_cursor": None}


def test_wrong_filters_are_usage_errors(line: Line) -> None:
    assert line("list", "--state", "lost").code == 64
    assert "is not a state: running" in line("list", "--state", "lost").err
    assert "'wating' is not a state: did you mean waiting?" in line("list", "--state", "wating").err
    assert line("list", "-n", "0").code == 64
    assert line("list", "stray").code == 64


def test_status_is_one_screen(line: Line, jobs: dict[str, str]) -> None:
    result = line("status")
    assert (result.code, result.err) == (0, "")
    assert re.match(r"semanticad \S+  ready, up \S+, pid \d+, 0 of 2 slots in use\n", result.out)
    for heading in ("queues", "waiting, those in the queue first", "ended, the last one first"):
        assert f"\n{heading}\n" in result.out
    found = line("status", "--json").json
    assert set(found) == {"health", "system", "queues", "schedules", "running", "waiting", "ended"}
    assert [job["job_id"] for job in found["waiting"]] == [jobs["later"]]
    assert line("status", "-q").out.split() == [jobs["later"]]


def test_status_shows_first_the_job_that_ended_last(line: Line, jobs: dict[str, str]) -> None:
    early = line("add", "-q", "--on-event", "now", "--", "true").out.strip()
    assert line("run", "--", "true").code == 0
    line("emit", "now")
    assert line("wait", early).code == 0
    assert line("status", "--json").json["ended"][0]["job_id"] == early
    table = line("status").out.partition("\nended, the last one first\n")[2].splitlines()
    assert re.search(r"  ENDED +TOOK", table[0])
    assert table[1].startswith(early[:8])
    assert re.search(r"  \d+s ago ", table[1])


def test_status_shows_jobs_in_a_queue_first_and_how_many_more_wait(line: Line, jobs: dict[str, str]) -> None:
    later = [line("add", "-q", "-Q", "shut", "--after", "1h", "--", "true").out for _ in range(2)]
    line("queue", "pause", "--create", "shut")
    queued = [line("add", "-q", "-Q", "shut", "--", "true").out.strip() for _ in range(9)]
    result = line("status")
    assert [job["job_id"] for job in line("status", "--json").json["waiting"]] == [*queued, jobs["later"]]
    assert f"\n… and {len(later)} more: `semantica list --state waiting`\n" in result.out
    line("cancel", "-Q", "shut")


def test_status_shows_the_schedules(line: Line, jobs: dict[str, str]) -> None:
    line("add", "--every", "0 3 1 1 *", "--name", "yearly", "--", "true")
    line("wait", line("schedule", "trigger", "yearly").out.strip())
    assert re.search(r"\nschedules\nNAME +NEXT +LAST +ENDED\nyearly +\S+ 03:00:00 +\d\S+ +DONE\n", line("status").out)
    line("schedule", "delete", "yearly")


def test_a_job_that_waits_for_its_next_attempt_takes_no_time(line: Line, jobs: dict[str, str]) -> None:
    line("add", "-t", "again", "--attempts", "2", "--backoff", "1h", "--", "false")
    events = line.start("events", "-f", "--since", "0", "--job", "@last")
    events.until("job.retrying")
    events.process.kill()
    events.result()
    assert "TOOK" not in line("list", "-t", "again").out
    line("cancel", "-t", "again")


def test_status_of_a_job_is_show(line: Line, jobs: dict[str, str]) -> None:
    status, show = (line(name, jobs["failed"]).out for name in ("status", "show"))
    assert re.sub(r"\(\w+ ago\)", "", status) == re.sub(r"\(\w+ ago\)", "", show)


def test_show_prints_everything_about_a_command(line: Line, jobs: dict[str, str]) -> None:
    result = line("show", jobs["failed"])
    names = [row.split("  ")[0] for row in result.out.splitlines()]
    for name in ("id", "state", "type", "tag", "queue", "command", "folder", "environment", "added", "exit code"):
        assert name in names
    assert "PATH" in result.out
    assert line.env["PATH"] not in result.out
    assert "(E_EXIT, transient)" in result.out
    assert f"`semantica logs {jobs['failed'][:8]}` shows what it wrote" in result.out
    assert re.search(r"^log +/.*job\.log$", result.out, re.MULTILINE)
    assert re.search(r"^1 +FAILED .* 3 ", result.out, re.MULTILINE)


def test_show_prints_everything_about_a_handler(line: Line, jobs: dict[str, str]) -> None:
    result = line("show", jobs["done"]).out
    assert re.search(r'^payload +{"n": 1}$', result, re.MULTILINE)
    assert re.search(r'^result +{"n": 1}$', result, re.MULTILINE)


def test_show_says_how_long_the_last_of_several_runs_took(line: Line) -> None:
    line("run", "-q", "--attempts", "2", "--backoff", "1ms", "--", "false")
    assert re.search(r"^ended +\S+, last run \S+$", line("show", "@last").out, re.MULTILINE)


def test_show_prints_when_a_job_is_due(line: Line, jobs: dict[str, str]) -> None:
    assert re.search(r"^due +\d", line("show", jobs["later"]).out, re.MULTILINE)


def test_show_as_json_is_job_get(line: Line, daemon: Process, jobs: dict[str, str]) -> None:
    assert line("show", "--json", jobs["done"]).json == daemon.call("job.get", job_id=jobs["done"])


def test_a_job_is_found_by_the_beginning_of_its_id(line: Line, jobs: dict[str, str]) -> None:
    assert line("show", "-q", jobs["done"][:8].upper()).out.strip() == jobs["done"]
    assert line("show", "0000000").code == 65
    assert line("show", "abc").code == 64
    assert line("show", "not-an-id").code == 64


def test_times_are_in_the_zone_of_the_reader(line: Line, jobs: dict[str, str]) -> None:
    here, there = (line("show", jobs["done"], TZ=zone).out for zone in ("UTC", "XXX-5:30"))
    added = [re.search(r"added +(?:\S+ )?(\d+):(\d+):", text) for text in (here, there)]
    first, second = (int(found[1]) * 60 + int(found[2]) for found in added if found)
    assert (second - first) % 1440 == 330


def test_json_is_one_line_off_a_terminal_and_indented_on_one(line: Line, jobs: dict[str, str], tmp_path: Path) -> None:
    assert line("show", "--json", jobs["done"]).out.count("\n") == 1
    shown = line.on_terminal("show", "--json", jobs["done"]).out
    assert shown.count("\n") > 20
    assert json.loads(shown)["job_id"] == jobs["done"]


def test_json_on_a_terminal_escapes_what_would_paint_it(line: Line) -> None:
    text = "a\x9b31m\u202eb\x7f\x1bc\U000e0001 größe"
    line(
        "rpc", "template.put", json.dumps({"name": "painted", "spec": {"job_type": "semantica.noop", "user_tag": text}})
    )
    shown = line.on_terminal("template", "show", "painted", "--json").out
    assert json.loads(shown)["spec"]["user_tag"] == text
    assert r"a\u009b31m\u202eb\u007f\u001bc\udb40\udc01 größe" in shown
    assert all(char.isprintable() or char == "\n" for char in shown)
