"""template.* and schedule.* over the socket: by id and by name, put again, refused, and told in the stream.

What a schedule does when its time has come is in `tests/engine/test_schedules*`.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.engine.stream import events
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


async def test_what_the_call_itself_says_goes_before(manual: Harness) -> None:
    """Its payload is laid over the template's, key by key at the top."""
    await manual.call("template.put", name="t", spec=ECHO)
    given = {"payload": {"b": 3, "d": 4}, "priority": -7, "user_tag": "mine"}
    job = await manual.job((await manual.enqueue("semantica.echo", template_id="t", **given))["job_id"])
    assert job["payload"] == {"a": 1, "b": 3, "d": 4}
    assert (job["priority"], job["user_tag"], job["queue"], job["max_attempts"]) == (-7, "mine", "q", 3)


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


async def test_a_key_holds_for_a_template_as_for_a_spec(manual: Harness) -> None:
    await manual.call("template.put", name="t", spec=ECHO)
    call: dict[str, Any] = {"job_type": "semantica.echo", "template_id": "t", "idempotency_key": "k"}
    first = await manual.call("job.enqueue", **call)
    again = await manual.call("job.enqueue", **call)
    assert (again["job_id"], again["existing"]) == (first["job_id"], True)
    error = await refused(manual, "job.enqueue", **call, payload={"a": 9})
    assert (error.code, error.data["code"]) == (4002, "E_IDEMPOTENCY_CONFLICT")


async def test_many_jobs_of_templates_are_all_or_none(manual: Harness) -> None:
    await manual.call("template.put", name="t", spec=ECHO)
    one = {"job_type": "semantica.echo", "template_id": "t"}
    acks = (await manual.call("job.enqueue_many", jobs=[{**one, "user_tag": f"{n}"} for n in range(3)]))["jobs"]
    assert [(await manual.job(ack["job_id"]))["user_tag"] for ack in acks] == ["0", "1", "2"]
    await refused(manual, "job.enqueue_many", jobs=[one, {**one, "template_id": "none"}])
    assert len((await manual.call("job.list"))["items"]) == 3


async def test_a_template_put_again_is_changed_and_leaves_its_jobs_alone(manual: Harness) -> None:
    await manual.call("queue.pause")
    first = await manual.call("template.put", name="t", spec=ECHO)
    old = (await manual.enqueue("semantica.echo", template_id="t"))["job_id"]
    await manual.advance(1000)
    again = await manual.call("template.put", name="t", spec={"job_type": "semantica.echo", "payload": {"new": True}})
    assert again == first | {"created": False}
    found = await manual.call("template.get", template_id="t")
    assert (found["created_at"], found["updated_at"]) == (START, START + 1000)
    new = (await manual.enqueue("semantica.echo", template_id="t"))["job_id"]
    assert [(await manual.job(one))["payload"] for one in (old, new)] == [ECHO["payload"], {"new": True}]


async def test_by_its_id_a_template_can_be_renamed_but_not_into_another(manual: Harness) -> None:
    first = await manual.call("template.put", name="a", spec=NOOP)
    second = await manual.call("template.put", name="b", spec=NOOP)
    renamed = await manual.call("template.put", name="c", spec=NOOP, template_id=first["template_id"])
    assert renamed == first | {"name": "c", "created": False}
    error = await refused(manual, "template.put", name="b", spec=NOOP, template_id=first["template_id"])
    assert (error.code, error.data["code"], error.data["template_id"]) == (4002, "E_NAME_TAKEN", second["template_id"])
    assert [one["name"] for one in (await manual.call("template.list"))["templates"]] == ["b", "c"]


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


async def test_jobs_of_a_template_that_is_gone_go_on(manual: Harness) -> None:
    await manual.call("queue.pause")
    template_id = (await manual.call("template.put", name="t", spec=NOOP))["template_id"]
    job_id = (await manual.enqueue(template_id="t"))["job_id"]
    await manual.call("template.delete", template_id="t")
    await manual.call("queue.resume")
    await manual.settle()
    job = await manual.job(job_id)
    assert (job["state"], job["template_id"]) == ("DONE", template_id)


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


async def test_by_its_id_a_schedule_can_be_renamed_but_not_into_another(manual: Harness) -> None:
    await manual.call("template.put", name="t", spec=NOOP)
    first, second = await schedule(manual, "a"), await schedule(manual, "b")
    renamed = await schedule(manual, "c", schedule_id=first["schedule_id"])
    assert renamed == first | {"name": "c", "created": False}
    error = await refused(
        manual, "schedule.put", name="b", template_id="t", cron_expression="@daily", schedule_id=first["schedule_id"]
    )
    assert (error.code, error.data["code"], error.data["schedule_id"]) == (4002, "E_NAME_TAKEN", second["schedule_id"])
    assert [one["name"] for one in (await manual.call("schedule.list"))["schedules"]] == ["b", "c"]


async def test_enabling_and_disabling_twice_is_once(manual: Harness) -> None:
    await manual.call("template.put", name="t", spec=NOOP)
    made = await schedule(manual)
    for _ in range(2):
        answer = await manual.call("schedule.enable", schedule_id="s")
        assert answer["next_trigger_at"] == made["next_trigger_at"]
    for _ in range(2):
        await manual.call("schedule.disable", schedule_id="s")
    await manual.call("schedule.enable", schedule_id="s")
    told = [one["event_type"] for one in await events(manual) if one["event_type"].startswith("schedule.")]
    assert told == ["schedule.created", "schedule.disabled", "schedule.enabled"]


async def test_upcoming_are_the_next_five_in_its_zone(manual: Harness) -> None:
    """START is 8:00 in UTC and 9:00 in Berlin, on a Friday."""
    await manual.call("template.put", name="t", spec=NOOP)
    await schedule(manual, cron_expression="0 9 * * 1-5", timezone="Europe/Berlin")
    found = await manual.call("schedule.get", schedule_id="s")
    day = 86_400_000
    assert found["upcoming"] == [START + days * day for days in (3, 4, 5, 6, 7)]


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


async def test_a_hundred_schedules_are_listed_by_name(manual: Harness) -> None:
    await manual.call("template.put", name="t", spec=NOOP)
    for number in range(100):
        await schedule(manual, f"s{number:02}")
    listed = (await manual.call("schedule.list"))["schedules"]
    assert [one["name"] for one in listed] == [f"s{number:02}" for number in range(100)]
    assert (await manual.call("template.get", template_id="t"))["schedules"] == [one["name"] for one in listed]
