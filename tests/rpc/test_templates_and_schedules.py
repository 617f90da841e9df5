"""template.* and schedule.* over the socket: error codes, what a restart keeps, and the events of the stream.

The result of each method is in `examples`, what the verbs do in `tests/store/test_templates` and `test_schedules`.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.harness import START, Harness, ManualClock, RpcError, daemon

NOOP = {"job_type": "semantica.noop"}
ECHO = {
    "job_type": "semantica.echo",
    "payload": {"a": 1, "b": {"c": 2}},
    "queue": "q",
    "priority": 7,
    "max_attempts": 3,
}


async def refused(harness: Harness, method: str, /, **params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await harness.call(method, **params)
    return caught.value


async def schedule(harness: Harness, name: str = "s", **more: Any) -> Any:
    fields = {"template_id": "t", "cron_expression": "@hourly", **more}
    return await harness.call("schedule.put", name=name, **fields)


async def test_a_template_fills_in_what_the_call_leaves_out(manual: Harness) -> None:
    template_id = (await manual.call("template.put", name="t", spec=ECHO))["template_id"]
    for key in ("t", template_id):
        ack = await manual.enqueue("semantica.echo", template_id=key)
        job = await manual.job(ack["job_id"])
        assert {name: job[name] for name in ECHO} == ECHO
        assert (job["template_id"], job["schedule_id"]) == (template_id, None)
    await manual.settle()
    job = await manual.job(ack["job_id"])
    assert (job["state"], job["result_summary"]) == ("DONE", ECHO["payload"])
    assert job["runs"][0]["params_snapshot"] == ECHO["payload"]


async def test_times_and_conditions_of_a_template_count_from_the_job(manual: Harness) -> None:
    spec = {**NOOP, "schedule": {"type": "AFTER", "delay_ms": 5000, "wait_for_event": "e"}}
    await manual.call("template.put", name="t", spec=spec)
    await manual.advance(3000)
    plan = await manual.call("job.plan", **NOOP, template_id="t")
    assert (plan["state"], str(START + 8000) in plan["starts_when"]) == ("SCHEDULED", True)
    job_id = (await manual.enqueue(template_id="t"))["job_id"]
    await manual.call("event.emit", key="e")
    await manual.advance(4999)
    assert await manual.state(job_id) == "SCHEDULED"
    await manual.advance(1)
    assert await manual.state(job_id) == "DONE"


@pytest.mark.parametrize("family", ["template", "schedule"])
async def test_by_its_id_one_is_renamed_but_not_into_another(manual: Harness, family: str) -> None:
    put, key = f"{family}.put", f"{family}_id"
    fields: dict[str, Any] = {"spec": NOOP}
    if family == "schedule":
        await manual.call("template.put", name="t", spec=NOOP)
        fields = {"template_id": "t", "cron_expression": "@daily"}
    first, second = [await manual.call(put, name=name, **fields) for name in ("a", "b")]
    renamed = await manual.call(put, name="c", **fields | {key: first[key]})
    assert renamed == first | {"name": "c", "created": False}
    error = await refused(manual, put, name="b", **fields | {key: first[key]})
    assert (error.code, error.data["code"], error.data[key]) == (4002, "E_NAME_TAKEN", second[key])


async def test_a_template_that_a_schedule_uses_cannot_be_deleted(manual: Harness) -> None:
    await manual.call("template.put", name="t", spec=NOOP)
    for name in ("s2", "s1"):
        await schedule(manual, name)
    error = await refused(manual, "template.delete", template_id="t")
    assert (error.code, error.data["code"], error.data["schedules"]) == (4002, "E_IN_USE", ["s1", "s2"])
    assert "s1, s2" in error.message
    for name in ("s1", "s2"):
        await manual.call("schedule.delete", schedule_id=name)
    assert (await manual.call("template.delete", template_id="t"))["deleted"] is True


async def test_a_template_may_hold_a_command_with_its_environment(real: Harness) -> None:
    command = {"argv": ["sh", "-c", "test $GREETING = hello"], "cwd": "/"}
    spec = {"job_type": "T", "payload": command, "env_vars": {"GREETING": "hello"}}
    await real.call("template.put", name="t", spec=spec)
    assert (await real.ended((await real.enqueue("T", template_id="t"))["job_id"]))["state"] == "DONE"
    other = {"template_id": "t", "env_vars": {"GREETING": "bye"}}
    assert (await real.ended((await real.enqueue("T", **other))["job_id"]))["state"] == "FAILED"


async def test_everything_outlives_a_restart(home: Path) -> None:
    clock = ManualClock()
    async with daemon(home, clock) as harness:
        await harness.call("template.put", name="t", spec=ECHO)
        await schedule(harness, timezone="Europe/Berlin", param_overrides={"b": 1}, misfire="skip", overlap="supersede")
        before = [await harness.call(name) for name in ("template.list", "schedule.list")]
    async with daemon(home, clock, seed=1) as harness:
        assert [await harness.call(name) for name in ("template.list", "schedule.list")] == before


async def test_a_schedule_put_again_is_changed_whole(manual: Harness) -> None:
    """What is left out is the default again, as if it were new; what it has done stays."""
    await manual.call("template.put", name="t", spec=NOOP)
    first = await schedule(manual, timezone="Asia/Tokyo", param_overrides={"a": 1}, misfire="skip", overlap="skip")
    triggered = await manual.call("schedule.trigger", schedule_id="s")
    await manual.advance(1000)
    again = await schedule(manual, cron_expression="*/5 * * * *")
    assert again == first | {"created": False, "next_trigger_at": START + 300_000}
    found = await manual.call("schedule.get", schedule_id="s")
    now = {"timezone": "UTC", "param_overrides": None, "misfire": "run_once", "overlap": "queue", "enabled": True}
    kept = {"created_at": START, "last_triggered_at": START, "last_job_id": triggered["job"]["job_id"]}
    assert found | now | kept | {"updated_at": START + 1000} == found


async def test_the_stream_tells_what_happened_to_which(manual: Harness) -> None:
    client = await manual.client()
    await client.call("event.subscribe")
    template_id = (await manual.call("template.put", name="t", spec=NOOP))["template_id"]
    await manual.call("template.put", name="t", spec=NOOP)
    schedule_id = (await schedule(manual))["schedule_id"]
    await schedule(manual)
    await manual.call("schedule.trigger", schedule_id="s")
    await manual.settle()
    await manual.call("schedule.delete", schedule_id="s")
    await manual.call("template.delete", template_id="t")
    told = [one for one in await client.events(10) if not one["event_type"].startswith("job.")]
    assert [one["event_type"] for one in told] == [
        "template.created", "template.changed", "schedule.created", "schedule.changed", "schedule.fired",
        "schedule.deleted", "template.deleted",
    ]  # fmt: skip
    assert {one["job_id"] for one in told} == {None}
    assert all(one["payload"]["name"] in ("s", "t") and one["message"] for one in told)
    assert {one["payload"].get("schedule_id", template_id) for one in told} == {template_id, schedule_id}


async def test_a_trigger_that_is_refused_says_why_and_changes_nothing(manual: Harness) -> None:
    await manual.call("queue.configure", queue="full", max_queued=0)
    await manual.call("template.put", name="t", spec={**NOOP, "queue": "full"})
    await schedule(manual)
    before = await manual.call("schedule.get", schedule_id="s")
    error = await refused(manual, "schedule.trigger", schedule_id="s")
    assert (error.code, error.data["code"]) == (4003, "E_QUEUE_FULL")
    assert await manual.call("schedule.get", schedule_id="s") == before
