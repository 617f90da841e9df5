"""`events` and `queue`: the stream line by line, and the rules of queues."""

import os
import re
from pathlib import Path

from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process


def test_events_are_lines_with_what_and_when(line: Line) -> None:
    line("run", "-t", "tagged", "-Q", "lively", "--", "sh", "-c", "exit 3")
    result = line("events", "--job", "@last")
    assert [row.split()[2] for row in result.out.splitlines()] == ["job.queued", "job.started", "job.failed"]
    assert all(re.match(r" *\d+  [0-9a-f]{8}  job\.\w+ +\d\d:\d\d:\d\d  ", row) for row in result.out.splitlines())
    assert "error: " in result.out


def test_events_as_json_are_a_document_a_line(line: Line, daemon: Process) -> None:
    line("run", "--", "true")
    events = line("events", "--json").lines
    assert events == daemon.call("event.list", since=events[0]["sequence"] - 1, limit=1000)["events"]


@each_case(
    ("words", "kinds"),
    [
        (("-t", "tagged"), {"job.queued", "job.started", "job.failed"}),
        (("-Q", "lively"), {"job.queued", "job.started", "job.failed"}),
        (("--type", "job.failed"), {"job.failed"}),
        (("--level", "error", "-Q", "lively"), {"job.failed"}),
        (("-t", "nobody"), set()),
    ],
)
def test_stored_events_can_be_chosen(line: Line, words: tuple[str, ...], kinds: set[str]) -> None:
    line("run", "-t", "tagged", "-Q", "lively", "--", "sh", "-c", "exit 3")
    assert {event["event_type"] for event in line("events", "--json", *words).lines} == kinds


def test_no_event_is_noted_on_stderr(line: Line) -> None:
    assert line("events", "-t", "nobody") == (0, "", "semantica: no event matches\n")
    assert line("events", "-t", "nobody", "--json") == (0, "", "")


def test_only_the_newest_are_shown_by_default(line: Line, daemon: Process) -> None:
    jobs = [{"job_type": "semantica.noop"}] * 30
    last = daemon.call("job.enqueue_many", jobs=jobs)["jobs"][-1]["job_id"]
    line("wait", last)
    assert len(line("events").out.splitlines()) == 50
    assert len(line("events", "-n", "7").out.splitlines()) == 7
    everything = line("events", "--since", "0", "--json").lines
    assert [event["sequence"] for event in everything] == list(range(1, len(everything) + 1))
    assert line("events", "--since", str(everything[-1]["sequence"])).out == ""


def test_a_rare_event_is_found_among_thousands_of_others(line: Line, daemon: Process) -> None:
    line("run", "-t", "rare", "-Q", "rare", "--", "sh", "-c", "exit 3")
    failed = line("show", "-q", "@last").out.strip()
    later = {"type": "AFTER", "delay_ms": 3_600_000}
    daemon.call("job.enqueue_many", jobs=[{"job_type": "semantica.noop", "schedule": later}] * 1000)
    for words in (("-t", "rare"), ("-Q", "rare"), ("--level", "error")):
        events = line("events", "--json", "-n", "1", "--type", "job.failed", *words).lines
        assert [event["job_id"] for event in events] == [failed]
    everything = line("events", "--json", "-n", "100000").lines
    assert [event["sequence"] for event in everything] == list(range(1, len(everything) + 1))
    assert line("events", "-n", "0").out == ""


@each_case(
    ("name", "hint"), [("job.faild", "did you mean job.failed?"), ("nonsense", "there are job.queued, job.scheduled")]
)
def test_an_unknown_type_of_event_is_refused(line: Line, name: str, hint: str) -> None:
    for words in ((), ("-f",), ("--since", "0")):
        result = line("events", "--type", name, *words)
        assert (result.code, result.out) == (64, "")
        assert f"--type: no event has the type {name}\n  {hint}" in result.err


def test_events_are_followed_as_they_happen(line: Line) -> None:
    line("run", "--", "true")
    follower = line.start("events", "-f", "--since", "0", "--type", "job.done", "--json")
    follower.until("job.done")
    line("run", "-t", "seen", "--", "true")
    job_id = line("show", "-q", "@last").out.strip()
    follower.until(job_id)
    follower.process.terminate()
    events = follower.result().lines
    assert {event["event_type"] for event in events} == {"job.done"}


def test_ctrl_c_ends_a_follower_quietly(line: Line) -> None:
    follower = line.start("events", "-f", "--since", "0")
    follower.until("daemon.started")
    follower.process.send_signal(2)
    result = follower.result()
    assert (result.code, result.err) == (130, "")


def test_a_gap_is_an_event_of_its_own(line: Line) -> None:
    follower = line.start("events", "-f", "--since", "99999999")
    assert "stream.gap" in follower.until("stream.gap")
    follower.process.kill()
    follower.result()


def test_a_gap_in_what_is_stored_is_printed_with_since(line: Line) -> None:
    result = line("events", "--since", "99999999", "--json").lines
    assert [event["event_type"] for event in result] == ["stream.gap"]


def test_wrong_words_about_events_are_usage_errors(line: Line) -> None:
    for words in (("--since", "x"), ("--level", "loud"), ("--job", "zz"), ("-n", "-1")):
        assert line("events", *words).code == 64


def test_queues_are_a_table(line: Line) -> None:
    line("queue", "set", "--create", "table", "--slots", "1")
    for words in (("queue",), ("queue", "list")):
        rows = [row.split() for row in line(*words).out.splitlines()]
        assert rows[0][:4] == ["QUEUE", "STATE", "RUNNING", "SLOTS"]
        assert ["table", "open", "0", "1", "0", "0", "finish"] in rows
    assert "table" in line("queue", "-q").out.split()
    assert line("queue", "list", "table", "--json").json["queues"][0]["slots"] == 1
    assert "there is no queue nowhere;" in line("queue", "list", "nowhere").err


def test_a_typo_does_not_create_a_queue(line: Line) -> None:
    line("run", "-Q", "building", "--", "true")
    line("template", "put", "stored", "-Q", "of.a.template", "--", "true")
    for words in (("pause", "buildin"), ("set", "buildin", "--slots", "1"), ("resume", "buildin")):
        result = line("queue", *words)
        assert (result.code, result.out) == (65, "")
        assert "there is no queue buildin\n  did you mean building?" in result.err
        assert ("(--create makes a new one)" in result.err) == (words[0] != "resume")
    assert "`semantica queue` shows what there is" in line("queue", "pause", "zzz").err
    assert line("queue", "list", "buildin", "-q").out == ""
    for known in ("building", "default", "of.a.template"):
        assert line("queue", "pause", known).code == line("queue", "resume", known).code == 0
    assert line("queue", "set", "--create", "buildin", "--slots", "1").code == 0
    assert line("queue", "list", "buildin", "-q").out == "buildin\n"


def test_more_slots_than_all_queues_have_together_are_warned_of(line: Line) -> None:
    sentence = "only 2 jobs run at once in all queues together"
    assert sentence in line("queue", "set", "--create", "wide", "--slots", "3").err
    assert line("queue", "set", "wide", "--slots", "3", "--json").json["warnings"] == [sentence]
    assert sentence not in line("queue", "set", "wide", "--slots", "2").err


def test_a_queue_without_live_jobs_can_be_deleted(line: Line) -> None:
    line("run", "-Q", "brief", "-t", "brief", "--", "true")
    ended = line("show", "-q", "@last").out
    line("queue", "pause", "brief")
    waiting = line("add", "-Q", "brief", "--", "true").out.strip()
    refused = line("queue", "delete", "brief")
    assert refused.code == 65
    assert "queue brief has jobs that wait or run: 1\n  `semantica cancel --queue brief` ends them" in refused.err
    line("cancel", waiting)
    assert "queue brief deleted" in line("queue", "delete", "brief").err
    assert line("queue", "list", "brief", "-q").out == ""
    assert ended.strip() in line("list", "-q", "--state", "done").out.split(), "its ended jobs stay"
    assert line("queue", "delete", "brief").code == 65
    assert line("run", "-Q", "brief", "--", "true").code == 0, "it begins anew, without the pause"
    assert line("queue", "list", "brief", "-q").out == "brief\n"


def test_a_queue_is_paused_and_resumed(line: Line) -> None:
    assert line("queue", "pause", "--create", "q1", "--json").json["paused"] is True
    assert "PAUSED" in line("queue", "list", "q1").out
    result = line("queue", "pause", "q1", "--for", "1h")
    assert "queue q1 is paused until" in result.err
    assert "queue q1 is open" in line("queue", "resume", "q1").err
    assert "open" in line("queue", "list", "q1").out


def test_all_queues_are_paused_and_resumed(line: Line) -> None:
    assert "every queue is paused" in line("queue", "pause").err
    assert "still paused: all queues are" in line("queue", "resume", "default").err
    assert "every queue is open" in line("queue", "resume").err
    assert line("run", "--", "true").code == 0


def test_the_rules_of_a_queue_are_set(line: Line) -> None:
    result = line("queue", "set", "--create", "q2", "--slots", "2", "--max-queued", "9", "--on-running", "cancel")
    assert "queue q2: 2 slots, at most 9 waiting, on running cancel" in result.err
    found = line("queue", "list", "q2", "--json").json["queues"][0]
    assert (found["slots"], found["max_queued"], found["on_running"]) == (2, 9, "cancel")


def test_the_limit_of_all_queues_is_set_and_kept(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text("[daemon]\nmax_slots = 1\n")
    line = Line(home, tmp_path)
    with Process(home) as process:
        process.start()
        for name in ("a", "b"):
            os.mkfifo(tmp_path / name)
            line("add", "-Q", name, "--", "sh", "-c", f"echo begun; cat {name}")
        assert "at most 2 jobs at once in all queues together" in line("queue", "set", "--slots", "2").err
        follower = line.start("logs", "-f", "@last")
        follower.until("begun")
        assert line("queue", "list", "default", "--json").json["queues"][0]["slots"] == 2
        for name in ("a", "b"):
            (tmp_path / name).write_text("")
        follower.result()
        process.stop()
        process.start()
        assert "of 2 slots in use" in line("status").out
        assert line("queue", "set", "--slots", "0", "--json").json["slots"] == 1
        assert "of 1 slots in use" in line("status").out
        assert "--slots: must be 1024 or less" in line("queue", "set", "--slots", "2000").err
        assert line("queue", "set", "--slots", "2", "--max-queued", "1").code == 64


@each_case(
    ("words", "sentence"),
    [
        (("pasue",), "did you mean pause?"),
        (("set",), "give a queue and at least one setting"),
        (("set", "q"), "give a queue and at least one setting"),
        (("pause", "q", "--slots", "1"), "--slots is not known here"),
        (("resume", "q", "--for", "1m"), "--for is not known here"),
        (("set", "q", "--slots", "-1"), "slots"),
        (("pause", "a b"), "queue"),
    ],
)
def test_wrong_words_about_queues_are_usage_errors(line: Line, words: tuple[str, ...], sentence: str) -> None:
    result = line("queue", *words)
    assert result.code == 64
    assert sentence in result.err


def test_a_refused_limit_of_a_queue_names_its_option(line: Line) -> None:
    result = line("queue", "set", "build", "--slots", "-1")
    assert result.code == 64
    assert "--slots: must be 0 or more\n  `semantica queue set --help` describes its options" in result.err
