"""Seed 004's recovery matrix, row by row, after a real daemon was killed at the failpoint that leads there.

The claim and the run are one commit, and so are the end of a run and that of its job. So no failpoint leaves a RUNNING
job without its run, or with one that has ended: these two rows come from a database that was repaired, and are made by
changing the one row that the failpoint has left.
"""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.crash import invariants
from tests.harness import PATIENCE_S, Process

OPEN_RUN = "SELECT jobs.state, job_runs.status FROM jobs LEFT JOIN job_runs ON job_number = jobs.number ORDER BY 1, 2"
COMMAND: dict[str, Any] = {"job_type": "true", "payload": {"argv": ["true"], "cwd": "/"}}
HANDLER: dict[str, Any] = {"job_type": "semantica.noop"}


def kill_at(home: Path, failpoint: str, spec: dict[str, Any], passage: int = 1) -> list[Any]:
    """Enqueues until the daemon has died there; the states of jobs and runs as they are on disk then."""
    with Process(home, SEMANTICA_FAILPOINT=f"{failpoint}:kill:{passage}").start() as process:
        with suppress(OSError, EOFError):
            for _ in range(40):
                process.call("job.enqueue", **spec)
        assert process.process is not None
        assert process.process.wait(PATIENCE_S) == -9, process.stderr()
    return change(home, OPEN_RUN)


def change(home: Path, sql: str, *values: Any) -> list[Any]:
    connection = sqlite3.connect(home / "meta.db")
    rows = connection.execute(sql, values).fetchall()
    connection.commit()
    connection.close()
    return rows


def first_job(process: Process) -> Any:
    """The job that was there at the kill, once it has ended."""
    (item, *_) = process.call("job.list", sort="oldest", limit=1)["items"]
    waited = process.call("job.wait", job_id=item["job_id"], timeout_ms=PATIENCE_S * 1000)
    assert waited["finished"], waited["job"]
    invariants.check(process.home)
    return waited["job"]


def runs_of(job: Any) -> list[tuple[str, str | None]]:
    return [(run["status"], (run["error"] or {}).get("code")) for run in job["runs"]]


def test_row_1_a_queued_job_resumes_in_the_queue(home: Path) -> None:
    with Process(home).start() as process:
        process.call("queue.pause")
        process.stop()
    states = kill_at(home, "after_commit_before_reply", HANDLER, passage=12)
    assert states
    assert set(states) == {("QUEUED", None)}
    with Process(home).start() as process:
        assert process.call("event.list", event_types=["daemon.recovered"])["events"] == [], "no action"
        process.call("queue.resume")
        job = first_job(process)
        assert (job["state"], runs_of(job)) == ("DONE", [("DONE", None)])


@pytest.mark.parametrize("spec", [HANDLER, COMMAND], ids=["handler", "command"])
def test_row_2_a_running_job_without_a_run_gets_one_that_failed_and_is_retried(
    home: Path, spec: dict[str, Any]
) -> None:
    states = kill_at(home, "after_claim_before_start", spec | {"max_attempts": 2, "backoff_base_ms": 1})
    assert ("RUNNING", "RUNNING") in states
    change(home, "DELETE FROM job_runs WHERE status = 'RUNNING'")
    assert ("RUNNING", None) in change(home, OPEN_RUN)
    with Process(home).start() as process:
        job = first_job(process)
        assert (job["state"], runs_of(job)) == ("DONE", [("FAILED", "E_ENGINE_CRASH"), ("DONE", None)])


@pytest.mark.parametrize(("failpoint", "attempts", "state", "runs"), [
    ("after_claim_before_start", 1, "FAILED", [("FAILED", "E_ENGINE_CRASH")]),
    ("after_spawn_before_pid_commit", 2, "DONE", [("FAILED", "E_ENGINE_CRASH"), ("DONE", None)]),
])  # fmt: skip
def test_row_3_a_running_job_with_an_open_run_has_failed_and_is_retried_if_it_may(
    home: Path, failpoint: str, attempts: int, state: str, runs: list[Any]
) -> None:
    states = kill_at(home, failpoint, COMMAND | {"max_attempts": attempts, "backoff_base_ms": 1})
    assert ("RUNNING", "RUNNING") in states
    with Process(home).start() as process:
        job = first_job(process)
        assert (job["state"], runs_of(job)) == (state, runs)


def test_row_4_a_running_job_whose_run_has_ended_takes_that_end(home: Path) -> None:
    states = kill_at(home, "after_run_before_finish", COMMAND | {"max_attempts": 3})
    assert ("RUNNING", "RUNNING") in states
    ended = change(
        home,
        "UPDATE job_runs SET status = 'DONE', finished_at = started_at + 1, exit_code = 0 WHERE status = 'RUNNING'"
        " RETURNING run_id",
    )
    assert ("RUNNING", "DONE") in change(home, OPEN_RUN)
    with Process(home).start() as process:
        job = first_job(process)
        assert (job["state"], job["exit_code"], runs_of(job)) == ("DONE", 0, [("DONE", None)])
        assert job["run_id"] in {row[0] for row in ended}, "it was not run again"
        assert job["finished_at"] is not None


def test_the_end_of_a_run_and_of_its_job_are_one_commit(home: Path) -> None:
    """Killed in the middle of the transaction that ends it, neither is there."""
    states = kill_at(home, "before_commit", HANDLER, passage=14)
    assert {state for state in states if state[0] == "RUNNING"} <= {("RUNNING", "RUNNING")}
    assert {state for state in states if state[1] == "RUNNING"} <= {("RUNNING", "RUNNING")}
    with Process(home).start() as process:
        first_job(process)


@pytest.mark.parametrize("is_stale", [True, False], ids=["stale", "not stale"])
def test_row_5_an_active_reservation_is_expired_if_stale_and_the_queue_resumes(home: Path, is_stale: bool) -> None:
    with Process(home, SEMANTICA_FAILPOINT="after_commit_before_reply:kill:40").start() as process:
        made = process.call("reservation.acquire", reserved_by="deploy", ttl_ms=300 if is_stale else 600_000)
        with suppress(OSError, EOFError):
            for _ in range(60):
                process.call("job.enqueue", **HANDLER)
        assert process.process is not None
        assert process.process.wait(PATIENCE_S) == -9, process.stderr()
    time.sleep(max(0, made["expires_at"] / 1000 - time.time()) if is_stale else 0)
    with Process(home).start() as process:
        found = process.call("reservation.get", reservation_id=made["reservation_id"])["reservation"]
        assert found["status"] == ("EXPIRED" if is_stale else "ACTIVE")
        if not is_stale:
            process.call("reservation.release", reservation_id=made["reservation_id"])
        assert first_job(process)["state"] == "DONE"
