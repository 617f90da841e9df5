"""External workers and a daemon that is killed: live leases go on, tokens survive, and each item ends once."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash import invariants
from tests.harness import PATIENCE_S, Process, RpcError


@pytest.fixture
def process(home: Path) -> Iterator[Process]:
    with Process(home).start() as one:
        yield one


def enqueue(process: Process, **spec: Any) -> str:
    return str(process.call("job.enqueue", job_type="work", execution_mode="EXTERNAL", **spec)["job_id"])


def register(process: Process) -> str:
    return str(process.call("worker.register", name="w")["worker_id"])


def claim(process: Process, worker_id: str, **params: Any) -> Any:
    (claimed,) = process.call("worker.claim", worker_id=worker_id, wait_ms=PATIENCE_S * 1000, **params)["jobs"]
    return claimed


def kill_and_start(process: Process) -> None:
    process.kill()
    process.start()
    invariants.check(process.home)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_worker_completes_after_the_daemon_was_ended_and_started(process: Process, end: str) -> None:
    job_id, worker_id = enqueue(process), register(process)
    claimed = claim(process, worker_id)
    getattr(process, end)()
    process.start()
    assert process.call("job.get", job_id=job_id)["state"] == "RUNNING"
    assert process.call("event.list", event_types=["daemon.recovered"])["events"] == []
    process.call("run.progress", run_token=claimed["run_token"], percent=50)
    process.call("run.result", run_token=claimed["run_token"], result="kept")
    (lease,) = process.call("worker.heartbeat", worker_id=worker_id)["leases"]
    assert lease["run_id"] == claimed["run_id"]
    job = process.call("worker.complete", worker_id=worker_id, run_id=claimed["run_id"])["job"]
    assert (job["state"], job["result_summary"], job["run_count"]) == ("DONE", "kept", 1)
    with pytest.raises(RpcError, match="E_LEASE_LOST"):
        process.call("worker.complete", worker_id=worker_id, run_id=claimed["run_id"])
    invariants.check(process.home)


def test_a_lease_that_nobody_renews_after_a_restart_is_lost_one_term_later(process: Process) -> None:
    job_id, worker_id = enqueue(process, on_interrupt="requeue"), register(process)
    claim(process, worker_id, lease_ms=1000)
    kill_and_start(process)
    started = time.time() * 1000
    again = claim(process, register(process))
    assert again["job"]["job_id"] == job_id
    run = process.call("job.get", job_id=job_id)["runs"][0]
    assert (run["status"], run["error"]["code"]) == ("INTERRUPTED", "E_LEASE_LOST")
    assert run["finished_at"] >= started - 1000


def test_jobs_keep_their_order_across_a_crash(process: Process) -> None:
    jobs = [enqueue(process, priority=priority) for priority in (0, 5, 0)]
    kill_and_start(process)
    jobs.append(enqueue(process))
    worker_id = register(process)
    order = [claim(process, worker_id)["job"]["job_id"] for _ in jobs]
    assert order == [jobs[1], jobs[0], jobs[2], jobs[3]]


def test_workers_that_go_on_while_the_daemon_is_killed_end_each_item_once(process: Process) -> None:
    """Every call may be cut short; a worker that does not know how a call ended calls again, and drops what is lost."""
    jobs = [enqueue(process, on_interrupt="requeue", max_attempts=2) for _ in range(60)]
    threads = [threading.Thread(target=work, args=(process,), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        until = time.monotonic() + 0.15
        while time.monotonic() < until:
            time.sleep(0.01)
        kill_and_start(process)
    for job_id in jobs:
        waited = process.call("job.wait", job_id=job_id, timeout_ms=PATIENCE_S * 1000)
        assert (waited["finished"], waited["job"]["state"]) == (True, "DONE")
        assert [run["status"] for run in waited["job"]["runs"]].count("DONE") == 1
    for thread in threads:
        thread.join(PATIENCE_S)
    invariants.check(process.home)


def work(process: Process) -> None:
    """Until the daemon has given no job for two seconds, which is longer than a lease."""
    worker_id = patiently(process, "worker.register", name="w")["worker_id"]
    while found := patiently(process, "worker.claim", worker_id=worker_id, lease_ms=1000, wait_ms=2000, max=3)["jobs"]:
        for claimed in found:
            patiently(process, "worker.complete", worker_id=worker_id, run_id=claimed["run_id"])


def patiently(process: Process, method: str, **params: Any) -> Any:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            return process.call(method, **params)
        except (OSError, EOFError):
            time.sleep(0.02)
        except RpcError as refused:
            if refused.code == 4002:
                return None
            if refused.code < 5000:
                raise
            time.sleep(0.02)
    raise AssertionError(f"no reply to {method}")
