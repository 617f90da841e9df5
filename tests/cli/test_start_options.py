"""Jobs that wait for the right moment: the options set what they wait for, and a note names it."""

import time
from pathlib import Path
from typing import Any

from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process

NOON = 1_935_489_600_000  # 2031-05-02 12:00 UTC


def added(line: Line, daemon: Process, *words: str, **env: str) -> tuple[Any, str]:
    """The job, and the note about it without its id."""
    result = line("add", *words, "--", "true", **env)
    assert result.code == 0, result.err
    job = daemon.call("job.get", job_id=result.out.strip())
    return job, result.err.removeprefix(f"semantica: job {job['job_id'][:8]} ").rstrip("\n")


@each_case(
    ("words", "kind", "expected", "sentence"),
    [
        (["--at", "2031-05-02T12:00"], "AT", {"scheduled_at": NOON}, "starts 2031-05-02 12:00:00, in "),
        (["--after", "10m"], "AFTER", {"schedule_delay_ms": 600_000}, ", in 10m00s"),
        (["--at", "2031-05-02 12:00Z", "--after", "1s"], "AT", {"scheduled_at": NOON}, "starts 2031-05-02 12:00"),
        (["--when-idle"], "CONDITION", {"wait_for_idle": True}, "starts when the machine is idle"),
        (["--on-event", "a:b"], "CONDITION", {"wait_for_event": "a:b"}, "starts when event a:b is emitted"),
        (["--on-event", "w=1=2"], "CONDITION", {"wait_for_event": None}, "starts when event w=1=2 is emitted"),
        (["--on-event", "w="], "CONDITION", {"wait_for_event": None}, "starts when event w= is emitted"),
        (["--when-idle", "--on-power", "--stop-when-lost"], "CONDITION",
         {"wait_for_idle": True, "require_charging": True, "stop_when_lost": True},
         "starts when the machine is idle and the machine is on mains power"),
        (["--at", "2031-05-02 12:00", "--when-idle", "--on-event", "k", "--on-event", "l=m"], "AT",
         {"scheduled_at": NOON, "wait_for_idle": True, "wait_for_event": "k"},
         ", or later, when the machine is idle, event k is emitted and event l=m"),
        (["-s", "lane", "--debounce", "10m", "--max-wait", "1h"], None,
         {"debounce_ms": 600_000, "max_wait_ms": 3_600_000},
         "starts when its subject has been quiet for 10m00s (for at most 1h00m)"),
    ],
)  # fmt: skip
def test_the_job_waits_for_what_the_options_name_and_the_note_names_it(
    line: Line, daemon: Process, words: list[str], kind: str | None, expected: dict[str, Any], sentence: str
) -> None:
    job, result = added(line, daemon, *words)
    assert {name: job[name] for name in expected} == expected
    assert job["state"] == "SCHEDULED"
    assert job["schedule_type"] in (kind, kind or "IMMEDIATE")
    assert sentence in result
    line("cancel", job["job_id"])


def test_an_event_with_a_value_is_a_condition(line: Line, daemon: Process) -> None:
    job, _ = added(line, daemon, "--on-event", "w=1=2", "--on-event", "v", "--on-event", "u=")
    assert job["wait_for_event"] == "v"
    assert [(one["key"], one["value"]) for one in job["conditions"]] == [("u", ""), ("w", "1=2")]
    line("cancel", job["job_id"])


def test_of_two_times_the_later_counts(line: Line, daemon: Process) -> None:
    before = time.time() * 1000
    job, result = added(line, daemon, "--at", "1m", "--after", "1h")
    assert before + 3_599_000 < job["scheduled_at"] < before + 3_630_000
    assert result.endswith(", in 1h00m")
    line("cancel", job["job_id"])


def test_times_are_those_of_the_users_zone_there_and_back(line: Line, daemon: Process) -> None:
    job, result = added(line, daemon, "--at", "2031-05-02 14:00", TZ="Europe/Berlin")
    assert job["scheduled_at"] == NOON
    assert "starts 2031-05-02 14:00:00" in result
    assert "scheduled for 2031-05-02 21:00:00" in line("why", job["job_id"], TZ="Asia/Tokyo").out
    assert "due          2031-05-02 05:00:00" in line("show", job["job_id"], TZ="America/Los_Angeles").out
    line("cancel", job["job_id"])


def test_a_time_in_the_past_is_now_with_a_warning(line: Line) -> None:
    result = line("add", "--at", "2001-01-01", "--", "true")
    assert (result.code, result.err) == (0, "semantica: the scheduled time is in the past: it runs now\n")
    assert line("wait", "@last", "--timeout", "20s").code == 0


def test_quiet_prints_only_the_id(line: Line) -> None:
    result = line("add", "-q", "--at", "2031-05-02", "--when-idle", "--", "true")
    assert (len(result.out), result.err) == (37, "")
    line("cancel", "@last")


def test_what_is_not_delayed_is_not_spoken_of(line: Line) -> None:
    assert line("add", "--on-power", "--on-event", "x", "--after", "0", "--", "true").err.endswith(
        "starts when the machine is on mains power and event x is emitted\n"
    )
    line("cancel", "@last")
    assert line("add", "--after", "0", "--", "true").err == ""


def test_the_note_about_an_existing_job_names_no_start(line: Line) -> None:
    line("add", "-k", "waiting", "--after", "1h", "--", "true")
    result = line("add", "-k", "waiting", "--after", "1h", "--", "true")
    assert "added before" in result.err
    assert "starts" not in result.err
    line("cancel", "@last")


def test_plan_prints_times_in_the_users_zone(line: Line) -> None:
    result = line("plan", "--at", "2031-05-02 14:00", "--when-idle", "--", "true", TZ="Europe/Berlin")
    assert (result.code, result.err) == (0, "")
    assert "starts  2031-05-02 14:00:00, in " in result.out
    assert "the machine is idle" in result.out


def test_saves_in_quick_succession_are_one_run(line: Line, daemon: Process, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    for _ in range(4):
        result = line("add", "-s", "quick", "--debounce", "3s", "--type", "lint", "--", "true")
    assert line("wait", result.out.strip(), "--timeout", "20s").code == 0
    jobs = line("list", "--json", "-s", "quick").json["items"]
    assert sorted(job["state"] for job in jobs) == ["DONE", "SUPERSEDED", "SUPERSEDED", "SUPERSEDED"]


def test_run_notes_what_it_waits_for_and_goes_on_when_that_has_come(line: Line) -> None:
    begun = line.start("run", "--on-event", "go", "--on-event", "now=1", "--", "echo", "done")
    begun.until("waiting: event go has not been emitted yet; event now=1 has not been emitted yet\n", "err")
    line("emit", "go")
    line("emit", "now=1")
    assert begun.result()[:2] == (0, "done\n")


@each_case(
    ("words", "sentence"),
    [
        (("--at", "noonish"), "--at: 'noonish' is not a time: write 10m or '10 minutes' (from now), 14:30"),
        (("--at", "14"), "'14' is not a time"),
        (("--after", "-1s"), "--after: a duration cannot be negative"),
        (("--after=-1s",), "a duration cannot be negative"),
        (("--on-event", ""), "has no key"),
        (("--on-event", "=x"), "has no key: write KEY or KEY=VALUE"),
        (("--on-event", "a", "--on-event", "b"), "only one event without a value"),
        (("--on-event", "a", "--on-event", "b"), "--on-event b=VALUE"),
        (("--on-event", "a=1", "--on-event", "a=2"), "--on-event a: a job cannot wait for two values of it"),
        (("--on-event", "k" * 300), "--on-event: must have at most 256 characters"),
        (("--debounce", "1s"), "--debounce needs --subject or --newest-wins"),
        (("--generation", "3"), "add --subject NAME"),
        (("--max-wait", "1s", "-s", "x"), "add --debounce D"),
        (("--stop-when-lost",), "add --when-idle or --on-power"),
        (("--max-wait", "1s", "-s", "x"), "--max-wait: a longest wait needs a debounce time"),
        (("--debounce", "2s", "--max-wait", "1s", "-s", "x"), "--max-wait: less than the debounce time"),
        (("--stop-when-lost",), "--stop-when-lost: the job needs neither an idle machine nor mains power"),
        (("-Q", ""), "--queue: must not be empty"),
        (("-Q", ""), "`semantica add --help` describes its options"),
        (("--attempts", "-1"), "--attempts: with -1 attempts it would never run: give 1"),
        (("--zone", "UTC"), "--zone needs --every"),
        (("--overlap", "skip"), "--overlap needs --every"),
        (("--when-ilde",), "did you mean --when-idle?"),
    ],
)
def test_wrong_words_about_waiting_are_usage_errors(line: Line, words: tuple[str, ...], sentence: str) -> None:
    result = line("add", *words, "--", "true")
    assert (result.code, result.out) == (64, "")
    assert sentence in result.err
    assert len(result.err.splitlines()) <= 2
    assert "Traceback" not in result.err
