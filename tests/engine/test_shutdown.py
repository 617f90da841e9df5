"""Stopping a real process: runs get their grace, every end is written, and nothing keeps it from leaving."""

import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.engine import sample_handlers
from tests.harness import PATIENCE_S, Process, RpcError

SIGTERM, SIGINT = signal.SIGTERM, signal.SIGINT


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., Process]]:
    """Starts semanticad in this test's home, again and again if need be."""
    started: list[Process] = []

    def begin(grace_ms: int = 3000, slots: int = 2, **env: str) -> Process:
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(sample_handlers.config(slots, grace_ms))
        started.append(Process(home, **env).start())
        return started[-1]

    yield begin
    for process in started:
        process.__exit__()


def enqueue(process: Process, job_type: str, **spec: Any) -> str:
    return str(process.call("job.enqueue", job_type=job_type, **spec)["job_id"])


def until(condition: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Bounded polling on a real condition."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        time.sleep(0.01)


def is_running(process: Process, job_id: str) -> bool:
    return bool(process.call("job.get", job_id=job_id)["state"] == "RUNNING")


def leave(process: Process) -> int:
    """The exit code; far earlier than the minute of grace that some runs have, and late enough on a busy machine."""
    assert process.process is not None
    return process.process.wait(PATIENCE_S)


def rows(process: Process, sql: str) -> list[Any]:
    connection = sqlite3.connect(process.home / "meta.db")
    found = connection.execute(sql).fetchall()
    connection.close()
    return found


def test_a_run_that_ends_within_its_grace_has_ended_well(start: Callable[..., Process]) -> None:
    process = start()
    job_id = enqueue(process, "busy", payload={"ms": 700})
    waiting = [enqueue(process, "busy", payload={"ms": 700}) for _ in range(2)]
    until(lambda: is_running(process, job_id))
    process.signal(SIGTERM)
    assert leave(process) == 0
    assert not process.socket.exists()
    states = dict(rows(process, "SELECT id, state FROM jobs"))
    assert (states[job_id], states[waiting[1]]) == ("DONE", "QUEUED"), "nothing new is claimed"
    again = start()
    assert again.call("job.wait", job_id=waiting[1])["job"]["state"] == "DONE"
    assert [one for one in rows(again, "SELECT event_type FROM job_events") if one[0] == "daemon.recovered"] == []


def test_a_job_whose_handler_was_not_called_yet_is_put_back(start: Callable[..., Process]) -> None:
    """With a backlog, a stop comes nearly always between the claim of a job and the call of its handler."""
    for _ in range(2):
        process = start()
        for _ in range(3):
            process.call("job.enqueue_many", jobs=[{"job_type": "semantica.noop"}] * 1000)
        process.signal(SIGTERM)
        assert leave(process) == 0
    counts = dict(rows(process, "SELECT state, count(*) FROM jobs GROUP BY state"))
    assert set(counts) <= {"DONE", "QUEUED"}
    assert counts["QUEUED"] > 0, "the stop came before the backlog was done"


@pytest.mark.parametrize(("on_interrupt", "attempts", "state"), [
    ("fail", 1, "FAILED"), ("fail", 3, "SCHEDULED"), ("requeue", 1, "QUEUED"),
])  # fmt: skip
def test_a_run_that_is_interrupted_ends_as_its_job_has_asked_for(
    start: Callable[..., Process], on_interrupt: str, attempts: int, state: str
) -> None:
    process = start(grace_ms=60_000)
    spec = {"payload": {"ms": 600_000}, "on_interrupt": on_interrupt, "max_attempts": attempts}
    job_id = enqueue(process, "semantica.sleep", **spec)
    until(lambda: is_running(process, job_id))
    assert process.stop() == 0, "an async handler is cancelled, and its grace of a minute not waited for"
    (row,) = rows(process, "SELECT state, attempts, run_count, json_extract(error, '$.code') FROM jobs")
    (run,) = rows(process, "SELECT status, json_extract(error, '$.code') FROM job_runs")
    given_back = on_interrupt == "requeue"
    assert row[:3] == (state, 0 if given_back else 1, 1)
    assert row[3] == (None if given_back else "E_SHUTDOWN")
    assert run == ("INTERRUPTED" if given_back else "FAILED", "E_SHUTDOWN")


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
def test_a_second_signal_means_now(start: Callable[..., Process], number: signal.Signals) -> None:
    process = start(grace_ms=60_000)
    job_id = enqueue(process, "deaf")
    until(lambda: is_running(process, job_id))
    process.signal(number)
    until(lambda: not process.socket.exists())
    with pytest.raises(AssertionError):
        until(lambda: process.process is not None and process.process.poll() is not None, 0.3)
    process.signal(number)
    assert leave(process) == 0
    assert rows(process, "SELECT state, json_extract(error, '$.code') FROM jobs") == [("FAILED", "E_SHUTDOWN")]


@pytest.mark.parametrize("job_type", ["deaf", "stubborn"])
def test_a_run_that_never_ends_does_not_keep_the_process(start: Callable[..., Process], job_type: str) -> None:
    process = start(grace_ms=200)
    job_id = enqueue(process, job_type)
    until(lambda: is_running(process, job_id))
    process.signal(SIGTERM)
    assert leave(process) == 0
    assert rows(process, "SELECT state, json_extract(error, '$.code') FROM jobs") == [("FAILED", "E_SHUTDOWN")]
    assert rows(process, "SELECT status FROM job_runs") == [("FAILED",)]


def test_admin_shutdown_stops_it_as_a_signal_does(start: Callable[..., Process]) -> None:
    process = start()
    assert process.call("admin.shutdown", reason="tidying up") == {"stopping": True}
    assert leave(process) == 0
    told = rows(process, "SELECT message FROM job_events WHERE event_type = 'daemon.stopping'")
    assert told == [("tidying up",)]
    assert not (process.home / "meta.db-wal").exists() or (process.home / "meta.db-wal").stat().st_size == 0


def test_while_it_stops_new_work_is_refused_and_questions_are_answered(start: Callable[..., Process]) -> None:
    process = start(grace_ms=60_000)
    job_id = enqueue(process, "deaf")
    until(lambda: is_running(process, job_id))
    with process.connect() as kept, kept.makefile("rwb") as stream:
        process.signal(SIGTERM)
        until(lambda: not process.socket.exists())
        stream.write(b'{"jsonrpc":"2.0","id":1,"method":"job.enqueue","params":{"job_type":"semantica.noop"}}\n')
        stream.write(b'{"jsonrpc":"2.0","id":2,"method":"admin.health"}\n')
        stream.flush()
        replies = stream.readline() + stream.readline()
    assert b'"E_STOPPING"' in replies
    assert b'"status":"stopping"' in replies
    process.signal(SIGTERM)
    assert leave(process) == 0
    assert len(rows(process, "SELECT id FROM jobs")) == 1


def test_a_cancel_that_was_accepted_holds_through_a_shutdown(start: Callable[..., Process]) -> None:
    process = start(grace_ms=200)
    job_id = enqueue(process, "deaf", on_interrupt="requeue", max_attempts=5)
    until(lambda: is_running(process, job_id))
    assert process.call("job.cancel", job_id=job_id)["cancelling"] == [job_id]
    process.signal(SIGTERM)
    assert leave(process) == 0
    assert rows(process, "SELECT state FROM jobs") == [("CANCELLED",)]


def test_a_database_held_by_another_does_not_keep_it_past_a_second_signal(start: Callable[..., Process]) -> None:
    """What could not be written is found by the recovery of the next start."""
    process = start(grace_ms=200)
    job_id = enqueue(process, "semantica.sleep", payload={"ms": 600_000})
    until(lambda: is_running(process, job_id))
    holder = sqlite3.connect(process.home / "meta.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    process.signal(SIGTERM)
    until(lambda: not process.socket.exists())
    process.signal(SIGTERM)
    leave(process)
    holder.execute("ROLLBACK")
    holder.close()
    job = start().call("job.get", job_id=job_id)
    assert (job["state"], job["error"]["code"] in ("E_SHUTDOWN", "E_ENGINE_CRASH")) == ("FAILED", True)


def test_a_failure_nobody_foresaw_stops_the_daemon_and_recovery_takes_over(start: Callable[..., Process]) -> None:
    process = start(SEMANTICA_FAILPOINT="before_commit:raise:8")
    with suppress(EOFError, OSError, RpcError):
        for _ in range(10):
            enqueue(process, "semantica.noop")
    assert leave(process) not in (0, None)
    again = start()
    assert again.call("admin.health")["status"] == "ready"
    assert again.call("job.wait", job_id=enqueue(again, "semantica.noop"))["finished"]
