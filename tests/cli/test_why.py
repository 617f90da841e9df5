"""`why`, `emit`, `machine`, and what `show` and `doctor` tell of waiting: the daemon's reasons in words of the line."""

from pathlib import Path

from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process


def test_why_prints_each_reason_and_the_likely_start(line: Line) -> None:
    job_id = line("add", "-q", "--after", "1h", "--when-idle", "--on-event", "e", "--on-event", "k=v", "--", "true").out
    result = line("why", "@last")
    first, *others = result.out.splitlines()
    assert (result.code, result.err) == (0, "")
    assert first == f"job {job_id[:8]}: waiting"
    assert [other.split()[0] for other in others[:3]] == ["scheduled", "event", "event"]
    assert others[1:3] == ["  event e has not been emitted yet", "  event k=v has not been emitted yet"]
    assert len(line("why", "-q", "@last").out.splitlines()) == 1
    line("cancel", "@last")


def test_why_names_the_place_in_the_queue_and_the_command_that_resumes_it(line: Line) -> None:
    line("queue", "pause", "--create", "shut")
    for _ in range(3):
        line("add", "-Q", "shut", "--", "true")
    first, *others = line("why", "@last").out.splitlines()
    paused = "queue shut is paused (`semantica queue resume shut` resumes it)"
    assert first.endswith(": waiting")
    assert others == [f"  {paused}", "  2 ahead in shut"]
    assert line("why", "-q", "@last").out.endswith(f": waiting: {paused}; 2 ahead in shut\n")
    head = line("list", "-q", "-Q", "shut").out.split()[-1]
    assert line("why", head).out == f"job {head[:8]}: waiting: {paused}\n  it is next in its queue\n"
    line("cancel", "-Q", "shut")


def test_why_knows_what_has_become_of_a_job(line: Line) -> None:
    line("run", "--", "sh", "-c", "exit 3")
    assert "failed: " in line("why", "@last").out
    line("queue", "pause", "--create", "ttl")
    line("run", "-Q", "ttl", "--ttl", "10ms", "--", "true")
    assert line("why", "@last").out.endswith("it waited for a slot longer than its TTL\n")


def test_json_is_what_the_daemon_explains(line: Line, daemon: Process) -> None:
    first = line("add", "-q", "--after", "1h", "--", "true").out.strip()
    second = line("add", "-q", "--on-event", "never", "--", "true").out.strip()
    assert line("why", "--json", first).json["reasons"][0]["kind"] == "time"
    result = line("why", "--json", first, second[:8]).lines
    assert [one["job_id"] for one in result] == [first, second]
    assert set(result[1]) >= {"state", "summary", "reasons", "queue_position", "estimated_start_at"}
    line("cancel", first, second)


@each_case(("words", "code"), [((), 64), (("xyz",), 64), (("00000000",), 65)])
def test_why_of_nothing_is_an_error(line: Line, words: tuple[str, ...], code: int) -> None:
    assert line("why", *words).code == code


def test_emit_opens_the_jobs_that_wait_and_prints_their_ids(line: Line) -> None:
    any_value = line("add", "-q", "--on-event", "saved", "--", "true").out
    that_value = line("add", "-q", "--on-event", "saved=a.py", "--", "true").out
    other_value = line("add", "-q", "--on-event", "saved=b.py", "--", "true").out
    result = line("emit", "saved=a.py")
    assert (result.code, set(result.out.splitlines(True))) == (0, {any_value, that_value})
    assert result.err == "semantica: 2 jobs were waiting for it\n"
    assert line("wait", any_value.strip(), that_value.strip(), "--timeout", "20s").code == 0
    last = line("emit", "saved", "b.py")
    assert (last.code, last.out, last.err) == (0, other_value, "semantica: 1 job was waiting for it\n")


def test_emit_without_a_waiting_job_succeeds(line: Line) -> None:
    assert line("emit", "nobody:waits") == (0, "", "semantica: no job was waiting for it\n")
    assert line("emit", "-q", "nobody:waits=x") == (0, "", "")
    assert line("emit", "nobody:waits", "--json").json == {"matched": []}


@each_case(
    ("words", "sentence"),
    [
        ((), "KEY[=VALUE]"), (("",), "has no key"), (("=v",), "has no key"),
        (("k", "v", "w"), "w is not known here"), (("k" * 300,), "key"),
    ],
)  # fmt: skip
def test_wrong_words_for_emit_are_usage_errors(line: Line, words: tuple[str, ...], sentence: str) -> None:
    result = line("emit", *words)
    assert (result.code, result.out) == (64, "")
    assert sentence in result.err


def test_emit_with_no_autostart_starts_no_daemon(home: Path, tmp_path: Path) -> None:
    result = Line(home, tmp_path)("--no-autostart", "emit", "x")
    assert (result.code, result.out) == (69, "")
    assert "no daemon is running" in result.err


def test_machine_prints_idle_power_and_sources(line: Line) -> None:
    result = line("machine")
    assert (result.code, result.err) == (0, "")
    rows = dict(row.split(None, 1) for row in result.out.split("\n\n")[0].splitlines())
    assert rows["idle"].startswith("no")
    assert rows["power"].startswith("on mains")
    assert rows["watching"].startswith("nothing")
    assert "sources" in result.out
    assert "sources" not in line("machine", "-q").out
    assert line("machine", "--json").json["watching"] == []


def test_machine_prints_what_is_watched_and_by_which_sources(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text("[machine]\nidle_ms = 86400000\n")
    line = Line(home, tmp_path)
    with Process(home).start():
        line("add", "--when-idle", "--", "true")
        line("rpc", "machine.activity", '{"source": "an editor"}')
        result = line("machine").out
    assert "watching  idle, because jobs wait for it\n" in result
    rows = {row.split()[1]: row for row in result.partition("DETAIL\n")[2].splitlines()}
    assert rows.keys() >= {"editors", "mutter", "logind", "load", "psutil"}
    assert "an editor reported activity last" in rows["editors"]


def test_doctor_reports_idle_and_power(line: Line) -> None:
    result = line("doctor").out
    assert "ok    idle: no" in result
    assert "ok    power: on mains" in result


def test_show_prints_what_a_job_needs_and_when_it_came_true(line: Line) -> None:
    words = ("--when-idle", "--stop-when-lost", "--on-event", "e", "--on-event", "k=v", "--on-event", "l=w")
    line("add", *words, "-s", "shown", "--debounce", "1s", "--max-wait", "1m", "--", "true")
    line("emit", "e")
    line("emit", "k=v")
    shown = line("show", "@last").out
    assert "needs        an idle machine; when that is lost, its run is ended and it waits again\n" in shown
    assert "needs        event e (emitted " in shown
    assert "needs        event k=v (emitted " in shown
    assert "needs        event l=w (not yet)\n" in shown
    assert "debounce     1s, waits 1m00s at most\n" in shown
    line("cancel", "@last")
