"""`add --every` with intervals and times of day, `--jitter`, `@reboot`, and `semantica on`."""

import json
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.cli import repeat
from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process


@each_case(
    ("text", "fields"),
    [
        ("10m", {"every_ms": 600_000}), ("90 minutes", {"every_ms": 5_400_000}), ("1h30m", {"every_ms": 5_400_000}),
        ("every 10m", {"every_ms": 600_000}), ("1 hour and 30 minutes", {"every_ms": 5_400_000}),
        ("daily 02:00", {"cron_expression": "0 2 * * *"}), ("daily at 4pm", {"cron_expression": "0 16 * * *"}),
        ("every day at noon", {"cron_expression": "0 12 * * *"}),
        ("Daily 2:30:15", {"cron_expression": "15 30 2 * * *"}),
        ("weekdays 9:00", {"cron_expression": "0 9 * * 1-5"}), ("weekends noon", {"cron_expression": "0 12 * * 0,6"}),
        ("monday 4pm", {"cron_expression": "0 16 * * 1"}), ("mon,thu 18:30", {"cron_expression": "30 18 * * 1,4"}),
        ("weekly sunday 9:00", {"cron_expression": "0 9 * * 7"}), ("daily", {"cron_expression": "@daily"}),
        ("*/5 * * * *", {"cron_expression": "*/5 * * * *"}),
        ("0 3 * * mon-fri", {"cron_expression": "0 3 * * mon-fri"}),
        ("@every 90m", {"cron_expression": "@every 90m"}), ("@reboot", {"cron_expression": "@reboot"}),
    ],
)  # fmt: skip
def test_what_every_means(text: str, fields: dict[str, Any]) -> None:
    assert repeat.fields(text) == fields


@each_case(
    "text", ["", "10", "often", "daily 25:00", "someday 9:00", "monday,often 9:00", "a b c d e", "10 months", "-5m"]
)
def test_what_is_no_schedule_is_refused_with_what_would_be_one(text: str) -> None:
    with pytest.raises(ValueError, match="is not a schedule: write 10m"):
        repeat.fields(text)


def test_an_interval_is_shown_with_its_next_instants(line: Line) -> None:
    made = line("add", "--every", "90m", "--jitter", "30s", "--name", "often", "--", "true")
    assert made.code == 0
    assert ", in 1h" in made.err
    assert made.err.endswith("(every 1h30m)\n")
    shown = line("schedule", "show", "often").out
    assert "when      every 1h30m\n" in shown
    assert "jitter    up to 30s\n" in shown
    upcoming = line("schedule", "next", "often", "--json").json["upcoming"]
    assert {later - at for at, later in pairwise(upcoming)} == {5_400_000}


def test_the_jitter_is_named_where_a_time_is_promised(line: Line) -> None:
    made = line("add", "--every", "daily 02:00", "--jitter", "10m", "--name", "spread", "--", "true")
    first, second, *_ = made.err.split("; then ")
    assert first.endswith(", up to 10m later")
    assert "later" not in second
    assert "  0 2 * * * + up to 10m  " in line("schedule").out


def test_status_names_the_event_that_a_schedule_waits_for(line: Line) -> None:
    line("on", "git:commit", "--name", "commits", "--", "true")
    (row,) = [row for row in line("status").out.splitlines() if row.startswith("commits ")]
    assert "  on git:commit  " in row
    line("schedule", "disable", "commits")
    (row,) = [row for row in line("status").out.splitlines() if row.startswith("commits ")]
    assert "git:commit" not in row


def test_on_runs_a_command_at_every_event_with_its_value(line: Line, tmp_path: Path) -> None:
    command = 'echo "$SEMANTICA_EVENT_KEY $SEMANTICA_EVENT_VALUE" >> log'
    made = line("on", "file:saved", "--name", "saved", "--", "sh", "-c", command)
    assert made.err == "semantica: schedule saved is new; it adds a job at every `semantica emit file:saved`\n"
    for value in ("a.py", "b c"):
        emitted = line("emit", f"file:saved={value}")
        assert emitted.err == "semantica: no job was waiting for it, 1 job was added by it\n"
        assert line("wait", emitted.out.strip()).code == 0
    assert (tmp_path / "log").read_text() == "file:saved a.py\nfile:saved b c\n"
    assert any(row.split()[:4] == ["saved", "on", "on", "file:saved"] for row in line("schedule").out.splitlines())
    line("schedule", "delete", "saved")
    assert line("emit", "file:saved=c").out == ""


def test_on_with_a_value_is_for_that_value_and_another_event_is_another_schedule(line: Line) -> None:
    first = line("on", "-q", "deploy=staging", "--", "true").out
    assert line("on", "-q", "deploy=staging", "--overlap", "skip", "--", "true").out == first
    assert line("on", "-q", "release", "--", "true").out != first
    assert line("emit", "-q", "deploy=other").out == ""
    assert line("emit", "-q", "deploy=staging").out != ""


def test_schedule_put_takes_one_way_to_fire(line: Line) -> None:
    line("template", "put", "t", "--", "true")
    put = ("schedule", "put", "s", "--template", "t")
    for words in ((), ("--every", "10m", "--cron", "@daily")):
        refused = line(*put, *words)
        assert refused.code == 64
        assert "give one of --cron, --every and --on-event" in refused.err
    assert line(*put, "--on-event", "e=v").code == 0
    assert line("schedule", "show", "s", "--json").json["event_value"] == "v"


def test_a_reboot_schedule_adds_a_job_at_the_first_start_after_a_reboot(home: Path) -> None:
    """The reboot is made by changing the boot that the stopped daemon has recorded."""
    with Process(home) as daemon:
        daemon.start()
        line = Line(home, home)
        assert "first time after a reboot" in line("add", "--every", "@reboot", "--name", "boot", "--", "true").err
        assert line("schedule", "next", "boot").out == ""
        daemon.stop()
        daemon.start()
        assert line("schedule", "show", "boot", "--json").json["last_job_id"] is None
        daemon.stop()
        forget_boot(home / "meta.db")
        daemon.start()
        job_id = line("schedule", "show", "boot", "--json").json["last_job_id"]
        assert line("wait", job_id).code == 0
        daemon.stop()
        daemon.start()
        assert line("schedule", "show", "boot", "--json").json["last_job_id"] == job_id


def forget_boot(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        (text,) = connection.execute("SELECT value FROM facts WHERE name = 'clock'").fetchone()
        other = json.dumps({**json.loads(text), "boot_id": "another"})
        connection.execute("UPDATE facts SET value = ? WHERE name = 'clock'", (other,))
    connection.close()
