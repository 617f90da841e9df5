"""Examples of the methods that move, change, hold and archive jobs; `examples` has the register."""

from typing import Any

from tests.harness import Harness
from tests.rpc.examples import LONG, shows


@shows("job.move")
async def move(real: Harness) -> Any:
    await real.call("queue.pause", queue="still")
    first, second = [(await real.enqueue(queue="still"))["job_id"] for _ in range(2)]
    answer = await real.call("job.move", job_id=second, before=first)
    assert answer == {"position": (await real.job(first))["position"] - 100, "priority": 0}
    assert (await real.call("job.explain", job_id=second))["queue_position"] == 0
    return answer


@shows("job.update")
async def update(real: Harness) -> Any:
    ack = await real.enqueue("semantica.echo", schedule=LONG, payload={"a": 1}, user_tag="old")
    changes = {"priority": 3, "user_tag": None, "payload": {"a": 2}}
    job = await real.call("job.update", job_id=ack["job_id"], **changes)
    assert job == await real.job(ack["job_id"])
    assert job | changes == job
    assert (await real.call("job.update", job_id=ack["job_id"], scheduled_at=0))["state"] != "SCHEDULED"
    assert (await real.ended(ack["job_id"]))["result_summary"] == {"a": 2}
    return job


@shows("job.hold")
async def hold(real: Harness) -> Any:
    ack = await real.enqueue(schedule=LONG)
    answer = await real.call("job.hold", job_id=ack["job_id"])
    assert answer == {"changed": [ack["job_id"]], "unchanged": []}
    assert (await real.job(ack["job_id"]))["held_at"] is not None
    return answer


@shows("job.release")
async def release(real: Harness) -> Any:
    ack = await real.enqueue(hold=True)
    assert ack["state"] == "SCHEDULED"
    answer = await real.call("job.release", job_id=ack["job_id"])
    assert answer == {"changed": [ack["job_id"]], "unchanged": []}
    assert (await real.ended(ack["job_id"]))["state"] == "DONE"
    return answer


@shows("job.archive")
async def archive(real: Harness) -> Any:
    ack = await real.enqueue()
    await real.ended(ack["job_id"])
    answer = await real.call("job.archive", job_id=ack["job_id"])
    assert answer == {"changed": [ack["job_id"]], "unchanged": []}
    assert (await real.job(ack["job_id"]))["archived_at"] is not None
    return answer
