"""What a method answers when all is well: the register of examples, and those of time, conditions and schedules.

`test_table` has the others, and holds each against the table.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.harness import Harness

Example = Callable[[Harness], Awaitable[Any]]
EXAMPLES: dict[str, Example] = {}

LONG = {"type": "AFTER", "delay_ms": 3_600_000}
ACK = {"job_id", "queue", "state", "generation", "superseded", "existing", "warnings"}
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
NOOP = {"job_type": "semantica.noop", "user_tag": "made"}


def shows(name: str) -> Callable[[Example], Example]:
    def keep(example: Example) -> Example:
        EXAMPLES[name] = example
        return example

    return keep


async def new_schedule(real: Harness, **more: Any) -> Any:
    """Once a year, so that it never fires by itself here."""
    await real.call("template.put", name="t", spec=NOOP)
    return await real.call("schedule.put", name="s", template_id="t", cron_expression="@yearly", **more)


@shows("job.explain")
async def explain(real: Harness) -> Any:
    ack = await real.enqueue(schedule={**LONG, "wait_for_event": "git:commit"})
    why = await real.call("job.explain", job_id=ack["job_id"])
    assert {"state", "summary", "reasons", "queue_position", "estimated_start_at"} <= set(why)
    assert (why["job_id"], why["state"], why["queue_position"]) == (ack["job_id"], "SCHEDULED", None)
    assert [reason["kind"] for reason in why["reasons"]] == ["time", "event"]
    assert all(reason["message"] in why["summary"] for reason in why["reasons"])
    return why


@shows("job.graph")
async def graph(real: Harness) -> Any:
    jobs = [{**NOOP, "schedule": LONG}, {**NOOP, "parents": ["#0"]}]
    acks = (await real.call("job.enqueue_many", jobs=jobs))["jobs"]
    found = await real.call("job.graph", job_id=acks[1]["job_id"])
    assert [node["job_id"] for node in found["nodes"]] == [ack["job_id"] for ack in acks]
    assert found["edges"] == [{"parent_id": acks[0]["job_id"], "job_id": acks[1]["job_id"]}]
    assert found["truncated"] is False
    return found


@shows("job.attach")
async def attach(real: Harness) -> Any:
    found = await real.call("job.attach")
    ack = await real.enqueue(**NOOP, attach_id=found["attach_id"])
    await real.ended(ack["job_id"])
    return found


@shows("job.input")
async def send_input(real: Harness) -> Any:
    attach_id = (await real.call("job.attach", stdin=True))["attach_id"]
    payload = {"argv": ["cat"], "cwd": "/"}
    ack = await real.enqueue("cat", payload=payload, execution_mode="SUBPROCESS", attach_id=attach_id)
    more = await real.call("job.input", attach_id=attach_id, data="aGVs")
    last = await real.call("job.input", attach_id=attach_id, data="bG8=", eof=True)
    assert (more["is_open"], last["is_open"]) == (True, False)
    await real.ended(ack["job_id"])
    assert (await real.call("job.logs", job_id=ack["job_id"]))["chunk"] == "hello"
    assert await real.call("job.input", attach_id=attach_id, data="eA==") == {"is_open": False}
    return last


@shows("job.retry")
async def retry(real: Harness) -> Any:
    first = await real.enqueue(**NOOP)
    await real.ended(first["job_id"])
    ack = await real.call("job.retry", job_id=first["job_id"])
    assert set(ack) >= ACK
    await real.ended(ack["job_id"])
    again = await real.call("job.retry", job_id=ack["job_id"])
    job = await real.ended(again["job_id"])
    assert (job["state"], job["retry_of"], job["user_tag"]) == ("DONE", ack["job_id"], "made")
    history = [(one["job_id"], one["retry_of"], one["state"]) for one in job["retries"]]
    ids = [first["job_id"], ack["job_id"], again["job_id"]]
    assert history == list(zip(ids, [None, *ids], ["DONE"] * 3, strict=False))
    assert (await real.job(first["job_id"]))["retries"] == job["retries"]
    return ack


@shows("group.create")
async def create_group(real: Harness) -> Any:
    policy = {"mode": "sequential", "on_failure": "stop"}
    answer = await real.call("group.create", chain_group_id="release", **policy)
    assert answer == {"chain_group_id": "release", "created": True}
    assert not (await real.call("group.create", chain_group_id="release", **policy))["created"]
    return answer


@shows("group.get")
async def get_group(real: Harness) -> Any:
    ids = [(await real.enqueue(chain_group_id="g"))["job_id"] for _ in range(3)]
    await real.call("group.wait", chain_group_id="g")
    found = await real.call("group.get", chain_group_id="g", limit=2)
    assert (found["status"], found["counts"], found["created_at"]) == ("DONE", {"DONE": 3}, None)
    assert [one["job_id"] for one in found["jobs"]] == ids[:2]
    rest = await real.call("group.get", chain_group_id="g", limit=2, cursor=found["next_cursor"])
    assert ([one["job_id"] for one in rest["jobs"]], rest["next_cursor"]) == (ids[2:], None)
    return found


@shows("group.list")
async def list_groups(real: Harness) -> Any:
    for name in ("b", "a"):
        await real.call("group.create", chain_group_id=name, max_parallel=2)
    await real.enqueue(chain_group_id="c")
    found = await real.call("group.list", limit=2)
    assert [(one["chain_group_id"], one["status"]) for one in found["groups"]] == [("a", "PENDING"), ("b", "PENDING")]
    rest = await real.call("group.list", limit=2, cursor=found["next_cursor"])
    assert ([one["chain_group_id"] for one in rest["groups"]], rest["next_cursor"]) == (["c"], None)
    return found


@shows("group.cancel")
async def cancel_group(real: Harness) -> Any:
    ack = await real.enqueue(chain_group_id="g", schedule={"type": "AFTER", "delay_ms": 60_000})
    answer = await real.call("group.cancel", chain_group_id="g")
    assert answer == {"cancelled": [ack["job_id"]], "cancelling": [], "unchanged": []}
    assert (await real.call("group.get", chain_group_id="g"))["status"] == "CANCELLED"
    return answer


@shows("group.wait")
async def wait_for_group(real: Harness) -> Any:
    await real.enqueue(chain_group_id="g", schedule={"type": "CONDITION", "wait_for_event": "go"})
    early = await real.call("group.wait", chain_group_id="g", timeout_ms=0)
    assert (early["finished"], early["group"]["status"]) == (False, "PENDING")
    waiting = asyncio.ensure_future(real.call("group.wait", chain_group_id="g", timeout_ms=60_000))
    await real.call("event.emit", key="go")
    answer = await waiting
    assert (answer["finished"], answer["group"]["status"]) == (True, "DONE")
    return answer


@shows("event.emit")
async def emit(real: Harness) -> Any:
    ack = await real.enqueue(schedule={"type": "CONDITION", "wait_for_event": "git:commit"})
    answer = await real.call("event.emit", key="git:commit")
    assert answer == {"matched": [ack["job_id"]]}
    assert (await real.ended(ack["job_id"]))["state"] == "DONE"
    return answer


@shows("template.put")
async def put_template(real: Harness) -> Any:
    first = await real.call("template.put", name="t", spec=NOOP)
    assert UUID4.fullmatch(first["template_id"])
    assert (first["name"], first["created"]) == ("t", True)
    again = await real.call("template.put", name="t", spec=NOOP)
    assert again == first | {"created": False}
    return again


@shows("template.get")
async def get_template(real: Harness) -> Any:
    made = await new_schedule(real)
    found = await real.call("template.get", template_id="t")
    assert (found["name"], found["spec"], found["schedules"]) == ("t", NOOP, [made["name"]])
    assert await real.call("template.get", template_id=found["template_id"]) == found
    assert abs(found["created_at"] - time.time() * 1000) < 60_000
    return found


@shows("template.list")
async def list_templates(real: Harness) -> Any:
    for name in ("b", "a"):
        await real.call("template.put", name=name, spec=NOOP)
    found = await real.call("template.list")
    assert [one["name"] for one in found["templates"]] == ["a", "b"]
    return found


@shows("template.delete")
async def delete_template(real: Harness) -> Any:
    made = await real.call("template.put", name="t", spec=NOOP)
    answer = await real.call("template.delete", template_id="t")
    assert answer == {"template_id": made["template_id"], "deleted": True}
    assert (await real.call("template.list"))["templates"] == []
    return answer


@shows("schedule.put")
async def put_schedule(real: Harness) -> Any:
    first = await new_schedule(real)
    assert UUID4.fullmatch(first["schedule_id"])
    assert (first["name"], first["created"]) == ("s", True)
    assert first["next_trigger_at"] > time.time() * 1000
    again = await new_schedule(real)
    assert again == first | {"created": False}
    return again


@shows("schedule.get")
async def get_schedule(real: Harness) -> Any:
    made = await new_schedule(real, timezone="Asia/Tokyo", param_overrides={"a": 1}, misfire="skip", overlap="skip")
    found = await real.call("schedule.get", schedule_id="s")
    assert await real.call("schedule.get", schedule_id=made["schedule_id"]) == found
    told: dict[str, Any] = {"name": "s", "template_name": "t", "cron_expression": "@yearly", "timezone": "Asia/Tokyo"}
    told |= {"enabled": True, "param_overrides": {"a": 1}, "misfire": "skip", "overlap": "skip", "last_job_id": None}
    assert found | told | {"last_triggered_at": None} == found
    assert (found["next_trigger_at"], len(found["upcoming"])) == (found["upcoming"][0], 5)
    assert found["upcoming"] == sorted(found["upcoming"])
    return found


@shows("schedule.list")
async def list_schedules(real: Harness) -> Any:
    await new_schedule(real)
    found = await real.call("schedule.list")
    assert found["schedules"] == [await real.call("schedule.get", schedule_id="s", upcoming=1)]
    return found


@shows("schedule.delete")
async def delete_schedule(real: Harness) -> Any:
    made = await new_schedule(real)
    answer = await real.call("schedule.delete", schedule_id="s")
    assert answer == {"schedule_id": made["schedule_id"], "deleted": True}
    assert (await real.call("schedule.list"))["schedules"] == []
    return answer


@shows("schedule.disable")
async def disable(real: Harness) -> Any:
    made = await new_schedule(real)
    answer = await real.call("schedule.disable", schedule_id="s")
    assert answer == {"schedule_id": made["schedule_id"], "enabled": False, "next_trigger_at": None}
    return answer


@shows("schedule.enable")
async def enable(real: Harness) -> Any:
    made = await new_schedule(real, enabled=False)
    assert made["next_trigger_at"] is None
    answer = await real.call("schedule.enable", schedule_id="s")
    assert (answer["schedule_id"], answer["enabled"]) == (made["schedule_id"], True)
    assert answer["next_trigger_at"] > time.time() * 1000
    return answer


@shows("schedule.trigger")
async def trigger(real: Harness) -> Any:
    made = await new_schedule(real)
    answer = await real.call("schedule.trigger", schedule_id="s")
    assert set(answer["job"]) >= ACK
    assert answer | {"skipped": None, "next_trigger_at": made["next_trigger_at"]} == answer
    job = await real.ended(answer["job"]["job_id"])
    assert (job["state"], job["user_tag"], job["schedule_id"]) == ("DONE", "made", made["schedule_id"])
    return answer


@shows("machine.get")
async def machine(real: Harness) -> Any:
    await real.call("machine.activity", source="nvim")
    found = await real.call("machine.get")
    assert (found["idle"], found["idle_ms"], found["watching"]) == (False, 120_000, [])
    by_kind = {kind: [one for one in found["sources"] if one["kind"] == kind] for kind in ("idle", "power")}
    assert by_kind["idle"][0]["source"] == "editors"
    assert len(by_kind["power"]) == 1
    assert all(one["detail"] for one in found["sources"])
    return found


@shows("machine.activity")
async def activity(real: Harness) -> Any:
    answer = await real.call("machine.activity", source="nvim")
    assert answer == {"idle": False, "idle_ms": 120_000}
    return answer


@shows("reservation.acquire")
async def acquire(real: Harness) -> Any:
    made = await real.call("reservation.acquire", reserved_by="ci", ttl_ms=60_000)
    assert UUID4.fullmatch(made["reservation_id"])
    assert 0 < made["expires_at"] - time.time() * 1000 <= 60_000
    await real.call("reservation.release", reservation_id=made["reservation_id"])
    return made


@shows("reservation.release")
async def release(real: Harness) -> Any:
    made = await real.call("reservation.acquire", reserved_by="ci")
    ended = await real.call("reservation.release", reservation_id=made["reservation_id"], reserved_by="ci")
    assert (ended["reservation_id"], ended["status"]) == (made["reservation_id"], "RELEASED")
    return ended


@shows("reservation.get")
async def get_reservation(real: Harness) -> Any:
    assert await real.call("reservation.get") == {"reservation": None}
    made = await real.call("reservation.acquire", reserved_by="ci")
    found = await real.call("reservation.get")
    assert (found["reservation"]["status"], found["reservation"]["job_id"]) == ("ACTIVE", None)
    await real.call("reservation.release", reservation_id=made["reservation_id"])
    ended = await real.call("reservation.get", reservation_id=made["reservation_id"])
    assert ended["reservation"] == found["reservation"] | {"status": "RELEASED"}
    return found


@shows("job.execute")
async def execute(real: Harness) -> Any:
    answer = await real.call("job.execute", **NOOP)
    assert (answer["job"]["state"], answer["existing"], answer["superseded"]) == ("DONE", False, [])
    kinds = [event["event_type"] for event in (await real.call("event.list"))["events"]]
    assert kinds[-4:-1] == ["reservation.acquired", "job.started", "job.done"]
    assert kinds[-1] == "reservation.released"
    return answer
