"""What the methods of external workers answer when all is well; `test_table` holds each against the table."""

import time
from typing import Any

from tests.harness import Harness
from tests.rpc.examples import UUID4, shows


async def new_worker(real: Harness, name: str = "w") -> str:
    return str((await real.call("worker.register", name=name, pid=17))["worker_id"])


async def external(real: Harness, **spec: Any) -> str:
    return str((await real.enqueue("work", execution_mode="EXTERNAL", **spec))["job_id"])


async def begin(real: Harness, worker_id: str, **spec: Any) -> Any:
    """Enqueue, and claim exactly that."""
    job_id = await external(real, **spec)
    (claimed,) = (await real.call("worker.claim", worker_id=worker_id))["jobs"]
    assert claimed["job"]["job_id"] == job_id
    return claimed


@shows("worker.register")
async def register(real: Harness) -> Any:
    answer = await real.call("worker.register", name="w", pid=17)
    assert UUID4.fullmatch(answer["worker_id"])
    assert answer != await real.call("worker.register", name="w"), "each call makes a worker"
    return answer


@shows("worker.claim")
async def claim(real: Harness) -> Any:
    worker_id = await new_worker(real)
    spec = {"payload": {"n": [1] * 5000}, "env_vars": {"PLAIN": "p", "API_TOKEN": "secret"}, "queue": "q"}
    job_id = await external(real, **spec)
    wanted: dict[str, Any] = {"queues": ["q"], "job_types": ["work"], "max": 5}
    answer = await real.call("worker.claim", worker_id=worker_id, lease_ms=9000, **wanted)
    (claimed,) = answer["jobs"]
    job = claimed["job"]
    assert (job["job_id"], job["state"], job["run_id"]) == (job_id, "RUNNING", claimed["run_id"])
    assert (job["worker_id"], job["payload"], job["execution_mode"]) == (worker_id, spec["payload"], "EXTERNAL")
    assert claimed["env_vars"] == spec["env_vars"]
    assert "secret" not in str(job), "others are not shown it"
    assert abs(claimed["lease_expires_at"] - time.time() * 1000 - 9000) < 5000
    listed = await real.call("job.list", state=["RUNNING"])
    assert [one["worker_id"] for one in listed["items"]] == [worker_id]
    (run,) = (await real.job(job_id))["runs"]
    assert run["worker_id"] == worker_id
    return answer


@shows("worker.heartbeat")
async def heartbeat(real: Harness) -> Any:
    worker_id = await new_worker(real)
    first, second = await begin(real, worker_id), await begin(real, worker_id)
    await real.call("job.cancel", job_id=second["job"]["job_id"])
    run_ids = [first["run_id"], second["run_id"], "gone"]
    answer = await real.call("worker.heartbeat", worker_id=worker_id, run_ids=run_ids)
    assert [lease["run_id"] for lease in answer["leases"]] == run_ids[:2]
    assert answer["leases"][0]["lease_expires_at"] >= first["lease_expires_at"]
    assert (answer["lost"], answer["cancel"]) == (["gone"], [second["run_id"]])
    return answer


@shows("worker.complete")
async def complete(real: Harness) -> Any:
    worker_id = await new_worker(real)
    claimed = await begin(real, worker_id)
    answer = await real.call("worker.complete", worker_id=worker_id, run_id=claimed["run_id"], result={"n": 1})
    job = answer["job"]
    assert (job["state"], job["result_summary"], job["worker_id"]) == ("DONE", {"n": 1}, worker_id)
    return answer


@shows("worker.fail")
async def fail(real: Harness) -> Any:
    worker_id = await new_worker(real)
    claimed = await begin(real, worker_id, max_attempts=3)
    more = {"class": "permanent", "exit_code": 7}
    answer = await real.call("worker.fail", worker_id=worker_id, run_id=claimed["run_id"], message="no", **more)
    error = {"code": "E_EXIT", "class": "permanent", "message": "no", "details": None}
    assert (answer["job"]["state"], answer["job"]["exit_code"], answer["job"]["error"]) == ("FAILED", 7, error)
    return answer


@shows("worker.leave")
async def leave(real: Harness) -> Any:
    worker_id = await new_worker(real)
    claimed = await begin(real, worker_id)
    answer = await real.call("worker.leave", worker_id=worker_id)
    assert answer == {"worker_id": worker_id, "given_back": [claimed["job"]["job_id"]]}
    job = await real.job(claimed["job"]["job_id"])
    assert (job["state"], job["attempts"], job["runs"][0]["status"]) == ("QUEUED", 0, "INTERRUPTED")
    return answer


@shows("worker.list")
async def list_workers(real: Harness) -> Any:
    worker_id, gone = await new_worker(real, "b"), await new_worker(real, "a")
    await real.call("worker.leave", worker_id=gone)
    claimed = await begin(real, worker_id)
    found = await real.call("worker.list")
    busy, left = found["workers"]
    assert (busy["worker_id"], busy["name"], busy["pid"], busy["alive"]) == (worker_id, "b", 17, True)
    (run,) = busy["runs"]
    assert (run["run_id"], run["job_id"]) == (claimed["run_id"], claimed["job"]["job_id"])
    assert (left["worker_id"], left["alive"], left["runs"]) == (gone, False, [])
    return found
