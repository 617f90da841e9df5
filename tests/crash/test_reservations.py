"""kill -9 of the daemon under a reservation: that of job.execute is released, a client's own holds until it expires."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon import failpoints
from tests.crash import invariants
from tests.crash.test_failpoints import NOT_PASSED
from tests.harness import PATIENCE_S, Process, RpcError

SLEEP: dict[str, Any] = {"job_type": "semantica.sleep", "payload": {"ms": 60_000}}
COMMAND: dict[str, Any] = {"job_type": "sleep", "payload": {"argv": ["sleep", "60"], "cwd": "/"}}
POINTS = [name for name in failpoints.NAMES if name not in NOT_PASSED]
# A commit and a sync are passed a few times at every start.
PASSAGE = {"before_commit": 12, "after_commit_before_reply": 12, "during_sync": 5, "during_checkpoint": 1}


@pytest.fixture
def process(home: Path) -> Iterator[Process]:
    with Process(home) as one:
        yield one.start()


def execute(process: Process, **spec: Any) -> dict[str, Any]:
    return dict(process.call("job.execute", **spec, wait_for="start")["job"])


def execute_to_end(process: Process, key: str) -> dict[str, Any]:
    """Durable, so that each call passes the points of a synced commit."""
    spec = {"job_type": "true", "payload": {"argv": ["true"], "cwd": "/"}, "idempotency_key": key, "durable": True}
    return dict(process.call("job.execute", **spec)["job"])


def active(process: Process) -> Any:
    return process.call("reservation.get")["reservation"]


def told(process: Process) -> list[str]:
    events = process.call("event.list", limit=1000)["events"]
    return [event["event_type"] for event in events if event["event_type"].startswith("reservation.")]


def killed_and_started_again(process: Process) -> None:
    process.kill()
    process.start()
    invariants.check(process.home)


def ended(process: Process, job_id: str) -> str:
    waited = process.call("job.wait", job_id=job_id, timeout_ms=PATIENCE_S * 1000)
    assert waited["finished"]
    return str(waited["job"]["state"])


@pytest.mark.parametrize("spec", [SLEEP, COMMAND], ids=["handler", "command"])
def test_that_of_a_job_is_released_and_the_queue_goes_on(process: Process, spec: dict[str, Any]) -> None:
    direct = execute(process, **spec)["job_id"]
    waiting = process.call("job.enqueue", job_type="semantica.noop")["job_id"]
    killed_and_started_again(process)
    job = process.call("job.get", job_id=direct)
    assert (job["state"], job["error"]["code"], job["run_count"]) == ("FAILED", "E_ENGINE_CRASH", 1)
    assert (active(process), told(process)) == (None, ["reservation.acquired", "reservation.released"])
    assert ended(process, waiting) == "DONE"
    assert "reservation_released" in process.stderr(), "it is in the log"


def test_a_job_that_is_put_back_goes_to_the_queue_like_any_other(process: Process) -> None:
    process.call("queue.pause")
    direct = execute(process, **SLEEP, on_interrupt="requeue")["job_id"]
    killed_and_started_again(process)
    assert process.call("job.get", job_id=direct)["state"] == "QUEUED", "the pause holds it back now"
    assert active(process) is None


@pytest.mark.parametrize("on_interrupt", ["fail", "requeue"])
def test_a_shutdown_releases_that_of_a_job_and_keeps_a_client_s_own(process: Process, on_interrupt: str) -> None:
    direct = execute(process, **COMMAND, on_interrupt=on_interrupt)["job_id"]
    while process.call("job.get", job_id=direct)["pid"] is None:
        time.sleep(0.01)
    assert process.stop() == 0
    process.start()
    assert told(process) == ["reservation.acquired", "reservation.released"]
    job = process.call("job.get", job_id=direct)
    assert job["runs"][0]["status"] == ("FAILED" if on_interrupt == "fail" else "INTERRUPTED")
    process.call("job.cancel", job_id=direct)
    made = process.call("reservation.acquire", reserved_by="deploy")
    assert process.stop() == 0
    process.start()
    assert active(process)["reservation_id"] == made["reservation_id"]


def test_a_client_s_own_holds_across_the_restart_until_it_expires(process: Process) -> None:
    made = process.call("reservation.acquire", reserved_by="deploy", ttl_ms=600_000)
    waiting = process.call("job.enqueue", job_type="semantica.noop")["job_id"]
    for kept in (1, 2):
        killed_and_started_again(process)
        found = active(process)
        assert (found["reservation_id"], found["expires_at"]) == (made["reservation_id"], made["expires_at"])
        assert told(process) == ["reservation.acquired", *["reservation.kept"] * kept]
        assert process.call("job.get", job_id=waiting)["state"] == "QUEUED"
    with pytest.raises(RpcError) as refused:
        process.call("reservation.acquire", reserved_by="other")
    assert refused.value.data["reserved_by"] == "deploy"
    soon = {"reserved_by": "deploy", "reservation_id": made["reservation_id"], "ttl_ms": 300}
    process.call("reservation.acquire", **soon)
    killed_and_started_again(process)
    assert ended(process, waiting) == "DONE"
    assert told(process)[-1] == "reservation.expired"


def test_one_that_expired_while_no_daemon_ran_is_expired(process: Process) -> None:
    made = process.call("reservation.acquire", reserved_by="deploy", ttl_ms=500)
    process.kill()
    time.sleep(max(0, made["expires_at"] / 1000 - time.time()))
    process.start()
    assert (active(process), told(process)) == (None, ["reservation.acquired", "reservation.expired"])
    assert process.call("reservation.get", reservation_id=made["reservation_id"])["reservation"]["status"] == "EXPIRED"


@pytest.mark.parametrize("name", POINTS)
def test_killed_at_each_point_of_a_direct_execution_nothing_stays_reserved(home: Path, name: str) -> None:
    """Callers repeat their calls with the same key: there is one job for each, and none has run twice."""
    acknowledged: dict[str, str] = {}
    key = ""
    with Process(home, SEMANTICA_FAILPOINT=f"{name}:kill:{PASSAGE.get(name, 3)}").start() as first:
        with suppress(OSError, EOFError):
            for number in range(40):
                key = f"key-{number}"
                acknowledged[key] = execute_to_end(first, key)["job_id"]
        assert first.process is not None
        assert first.process.wait(PATIENCE_S) == -9, first.stderr()
    with Process(home).start() as second:
        invariants.check(home)
        assert active(second) is None
        jobs = {one: execute_to_end(second, one) for one in [*acknowledged, key]}
        assert {one: jobs[one]["job_id"] for one in acknowledged} == acknowledged
        assert {(job["state"] in ("DONE", "FAILED"), job["run_count"]) for job in jobs.values()} == {(True, 1)}
        assert len(second.call("job.list", job_type=["true"], limit=200)["items"]) == len(jobs)
        assert active(second) is None
        invariants.check(home)


def test_callers_that_wait_for_a_reservation_lose_their_connection_and_nothing_more(process: Process) -> None:
    process.call("reservation.acquire", reserved_by="deploy")
    lost: list[type[BaseException]] = []

    def wait() -> None:
        try:
            process.call("job.execute", job_type="semantica.noop", wait_ms=60_000)
        except (OSError, EOFError) as error:
            lost.append(type(error))

    callers = [threading.Thread(target=wait) for _ in range(5)]
    for caller in callers:
        caller.start()
    while process.call("admin.health")["parts"]["server"]["connections"] < 6:
        time.sleep(0.01)
    killed_and_started_again(process)
    for caller in callers:
        caller.join()
    assert len(lost) == 5
    assert process.call("job.list")["items"] == []
