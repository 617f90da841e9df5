"""Bad input about time and conditions: the right code, the path of the field, a hint, and nothing stored."""

from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_case
from tests.harness import START, Harness, RpcError
from tests.rpc.wire import rows

NOOP = {"job_type": "semantica.noop"}
TABLES = ("jobs", "job_conditions", "job_events", "templates", "schedules", "lanes")

SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "a negative delay": ({"schedule": {"type": "AFTER", "delay_ms": -1}}, "$.schedule.delay_ms"),
    "half a millisecond": ({"schedule": {"type": "AFTER", "delay_ms": 0.5}}, "$.schedule.delay_ms"),
    "a delay as text": ({"schedule": {"type": "AFTER", "delay_ms": "10m"}}, "$.schedule.delay_ms"),
    "a delay without end": ({"schedule": {"type": "AFTER", "delay_ms": 10**16}}, "$.schedule.delay_ms"),
    "AFTER nothing": ({"schedule": {"type": "AFTER"}}, "$.schedule.delay_ms"),
    "a negative instant": ({"schedule": {"type": "AT", "scheduled_at": -1}}, "$.schedule.scheduled_at"),
    "an instant as text": ({"schedule": {"type": "AT", "scheduled_at": "02:00"}}, "$.schedule.scheduled_at"),
    "AT nothing": ({"schedule": {"type": "AT"}}, "$.schedule.scheduled_at"),
    "AT with a delay only": ({"schedule": {"type": "AT", "delay_ms": 5}}, "$.schedule.scheduled_at"),
    "AFTER with a condition only": ({"schedule": {"type": "AFTER", "wait_for_event": "e"}}, "$.schedule.delay_ms"),
    "conditions on nothing": ({"schedule": {"type": "CONDITION"}}, "$.schedule"),
    "conditions that are all off": (
        {"schedule": {"type": "CONDITION", "wait_for_idle": False, "require_charging": False, "conditions": {}}},
        "$.schedule",
    ),
    "CONDITION with a time only": ({"schedule": {"type": "CONDITION", "delay_ms": 5}}, "$.schedule"),
    "IMMEDIATE with a time": ({"schedule": {"scheduled_at": START}}, "$.schedule.scheduled_at"),
    "IMMEDIATE with a delay": ({"schedule": {"type": "IMMEDIATE", "delay_ms": 0}}, "$.schedule.delay_ms"),
    "IMMEDIATE with idle": ({"schedule": {"wait_for_idle": True}}, "$.schedule.wait_for_idle"),
    "IMMEDIATE with power": ({"schedule": {"require_charging": True}}, "$.schedule.require_charging"),
    "IMMEDIATE with an event": ({"schedule": {"wait_for_event": "e"}}, "$.schedule.wait_for_event"),
    "IMMEDIATE with conditions": ({"schedule": {"conditions": {"a": "b"}}}, "$.schedule.conditions"),
    "a type nobody knows": ({"schedule": {"type": "WHENEVER"}}, "$.schedule.type"),
    "a field nobody knows": ({"schedule": {"type": "AFTER", "delay_ms": 5, "cron": "@daily"}}, "$.schedule.cron"),
    "an event without a name": ({"schedule": {"type": "CONDITION", "wait_for_event": ""}}, "$.schedule.wait_for_event"),
    "an event with a NUL": (
        {"schedule": {"type": "CONDITION", "wait_for_event": "a\0"}},
        "$.schedule.wait_for_event",
    ),
    "a value that is a number": (
        {"schedule": {"type": "CONDITION", "conditions": {"a": 1}}},
        "$.schedule.conditions[...]",
    ),
    "a value that is null": (
        {"schedule": {"type": "CONDITION", "conditions": {"a": None}}},
        "$.schedule.conditions[...]",
    ),
    "a key without a name": ({"schedule": {"type": "CONDITION", "conditions": {"": "b"}}}, "$.schedule.conditions"),
    "a hundred and one conditions": (
        {"schedule": {"type": "CONDITION", "conditions": {f"k{number}": "v" for number in range(101)}}},
        "$.schedule.conditions",
    ),
    "max_wait_ms less than debounce_ms": (
        {"subject_key": "s", "debounce_ms": 1000, "max_wait_ms": 999},
        "$.max_wait_ms",
    ),
    "max_wait_ms alone": ({"subject_key": "s", "max_wait_ms": 1000}, "$.max_wait_ms"),
    "debounce_ms without a subject": ({"debounce_ms": 1000}, "$.debounce_ms"),
    "debounce_ms outside every lane": (
        {"debounce_ms": 1000, "subject_key": "s", "supersede": "none"},
        "$.debounce_ms",
    ),
    "a negative debounce_ms": ({"subject_key": "s", "debounce_ms": -1}, "$.debounce_ms"),
    "stop_when_lost of nothing": ({"stop_when_lost": True}, "$.stop_when_lost"),
    "stop_when_lost of an event": (
        {"stop_when_lost": True, "schedule": {"type": "CONDITION", "wait_for_event": "e"}},
        "$.stop_when_lost",
    ),
    "a negative backoff": ({"backoff_base_ms": -1}, "$.backoff_base_ms"),
    "a timeout of nothing": ({"timeout_ms": 0}, "$.timeout_ms"),
    "a negative ttl": ({"ttl_ms": -1}, "$.ttl_ms"),
}  # fmt: skip
SCHEDULES: dict[str, tuple[dict[str, Any], str]] = {
    "a day that never comes": ({"cron_expression": "0 0 30 2 *"}, "$.cron_expression"),
    "the 31st of short months": ({"cron_expression": "0 0 31 4,6,9,11 *"}, "$.cron_expression"),
    "a minute that there is not": ({"cron_expression": "60 * * * *"}, "$.cron_expression"),
    "four fields": ({"cron_expression": "* * * *"}, "$.cron_expression"),
    "seven fields": ({"cron_expression": "* * * * * * *"}, "$.cron_expression"),
    "words": ({"cron_expression": "every day at noon"}, "$.cron_expression"),
    "nothing": ({"cron_expression": ""}, "$.cron_expression"),
    "blanks": ({"cron_expression": "   "}, "$.cron_expression"),
    "an alias nobody knows": ({"cron_expression": "@fortnightly"}, "$.cron_expression"),
    "a step of zero": ({"cron_expression": "*/0 * * * *"}, "$.cron_expression"),
    "an endless expression": ({"cron_expression": "0," * 500 + "0 * * * *"}, "$.cron_expression"),
    "a zone nobody knows": ({"timezone": "Mars/Olympus"}, "$.timezone"),
    "a zone that is a path": ({"timezone": "../../etc/passwd"}, "$.timezone"),
    "a zone without a name": ({"timezone": ""}, "$.timezone"),
    "a policy nobody knows": ({"misfire": "maybe"}, "$.misfire"),
    "an overlap nobody knows": ({"overlap": "stack"}, "$.overlap"),
    "overrides that are a list": ({"param_overrides": [1]}, "$.param_overrides"),
    "a name that is empty": ({"name": ""}, "$.name"),
    "a field that nobody knows": ({"every": "5m"}, "$.every"),
}  # fmt: skip
IN_TEMPLATE: dict[str, tuple[dict[str, Any], str]] = {
    "an instant": ({"schedule": {"type": "AT", "scheduled_at": START}}, "$.spec.schedule.scheduled_at"),
    "a deadline": ({"deadline": START}, "$.spec.deadline"),
    "a generation": ({"subject_key": "s", "generation": 1}, "$.spec.generation"),
    "an idempotency key": ({"idempotency_key": "k"}, "$.spec.idempotency_key"),
    "another template": ({"template_id": "t"}, "$.spec.template_id"),
    "a secret": ({"job_type": "T", "payload": {"argv": ["true"]}, "env_vars": {"API_TOKEN": "x"}}, "$.spec.env_vars"),
    "a command without words": ({"job_type": "T", "payload": {"argv": []}}, "$.spec.payload.argv"),
}  # fmt: skip


def counts(home: Path) -> dict[str, int]:
    return {table: rows(home, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


async def refused(harness: Harness, method: str, /, **params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await harness.call(method, **params)
    return caught.value


async def check(harness: Harness, home: Path, method: str, params: dict[str, Any], path: str) -> RpcError:
    """-32602 with the path in message and data, something to do about it, and nothing stored."""
    before = counts(home)
    error = await refused(harness, method, **params)
    assert (error.code, error.data["code"], error.data["retryable"]) == (-32602, "E_PARAMS", False), error
    assert error.data["path"] == path, error
    assert f"`{path}`" in error.message
    assert error.data["hint"]
    assert len(error.message) < 1000
    assert counts(home) == before
    return error


@each_case("name", SPECS)
async def test_a_spec_that_cannot_be_kept(shared: Harness, shared_home: Path, name: str) -> None:
    """By whichever method it comes."""
    fields, path = SPECS[name]
    spec = NOOP | fields
    await check(shared, shared_home, "job.enqueue", spec, path)
    await check(shared, shared_home, "job.plan", spec, path)
    many = {"jobs": [NOOP, spec]}
    await check(shared, shared_home, "job.enqueue_many", many, path.replace("$", "$.jobs[1]", 1))
    await check(shared, shared_home, "template.put", {"name": "t", "spec": spec}, path.replace("$", "$.spec", 1))


@each_case("name", SCHEDULES)
async def test_a_schedule_that_cannot_be_kept(shared: Harness, shared_home: Path, name: str) -> None:
    fields, path = SCHEDULES[name]
    await shared.call("template.put", name="sound", spec=NOOP)
    params = {"name": "s", "template_id": "sound", "cron_expression": "@daily", **fields}
    await check(shared, shared_home, "schedule.put", params, path)
    assert (await shared.call("schedule.list"))["schedules"] == []


@each_case("name", IN_TEMPLATE)
async def test_what_no_template_can_hold(shared: Harness, shared_home: Path, name: str) -> None:
    fields, path = IN_TEMPLATE[name]
    await check(shared, shared_home, "template.put", {"name": "t", "spec": NOOP | fields}, path)


@each_case(
    ("method", "params", "path"),
    [
        ("event.emit", {}, "$"),
        ("event.emit", {"key": ""}, "$.key"),
        ("event.emit", {"key": "k" * 257}, "$.key"),
        ("event.emit", {"key": "k", "value": 1}, "$.value"),
        ("event.emit", {"key": "k", "value": "v" * 1025}, "$.value"),
        ("event.emit", {"key": "k\0"}, "$.key"),
        ("event.emit", {"key": "k", "valeu": "v"}, "$.valeu"),
        ("machine.activity", {}, "$"),
        ("machine.activity", {"source": ""}, "$.source"),
        ("machine.get", {"deep": True}, "$.deep"),
        ("job.explain", {}, "$"),
        ("job.explain", {"job_id": "xyz!"}, "$.job_id"),
        ("template.put", {"name": "t"}, "$"),
        ("template.get", {"template_id": ""}, "$.template_id"),
        ("schedule.trigger", {"schedule_id": 1}, "$.schedule_id"),
    ],
)
async def test_arguments_that_are_wrong(
    shared: Harness, shared_home: Path, method: str, params: dict[str, Any], path: str
) -> None:
    await check(shared, shared_home, method, params, path)


async def test_a_mistyped_zone_is_told_the_nearest(shared: Harness) -> None:
    await shared.call("template.put", name="sound", spec=NOOP)
    params = {"name": "s", "template_id": "sound", "cron_expression": "@daily"}
    error = await refused(shared, "schedule.put", **params, timezone="Europe/Berln")
    assert "Europe/Berlin" in error.data["hint"]


@each_case(
    ("method", "params", "code"),
    [
        ("template.get", {"template_id": "none"}, "E_TEMPLATE_NOT_FOUND"),
        ("template.delete", {"template_id": "none"}, "E_TEMPLATE_NOT_FOUND"),
        ("template.put", {"name": "t", "spec": NOOP, "template_id": "none"}, "E_TEMPLATE_NOT_FOUND"),
        ("job.enqueue", {**NOOP, "template_id": "none"}, "E_TEMPLATE_NOT_FOUND"),
        ("job.plan", {**NOOP, "template_id": "none"}, "E_TEMPLATE_NOT_FOUND"),
        ("job.enqueue_many", {"jobs": [NOOP, {**NOOP, "template_id": "none"}]}, "E_TEMPLATE_NOT_FOUND"),
        ("schedule.put", {"name": "s", "template_id": "none", "cron_expression": "@daily"}, "E_TEMPLATE_NOT_FOUND"),
        ("schedule.get", {"schedule_id": "none"}, "E_SCHEDULE_NOT_FOUND"),
        ("schedule.delete", {"schedule_id": "none"}, "E_SCHEDULE_NOT_FOUND"),
        ("schedule.enable", {"schedule_id": "none"}, "E_SCHEDULE_NOT_FOUND"),
        ("schedule.disable", {"schedule_id": "none"}, "E_SCHEDULE_NOT_FOUND"),
        ("schedule.trigger", {"schedule_id": "none"}, "E_SCHEDULE_NOT_FOUND"),
    ],
)
async def test_what_is_not_there(
    shared: Harness, shared_home: Path, method: str, params: dict[str, Any], code: str
) -> None:
    before = counts(shared_home)
    error = await refused(shared, method, **params)
    assert (error.code, error.data["code"], "none" in error.message) == (4001, code, True)
    assert counts(shared_home) == before


async def test_a_spec_that_nobody_can_run_is_no_template(shared: Harness, shared_home: Path) -> None:
    before = counts(shared_home)
    error = await refused(shared, "template.put", name="t", spec={"job_type": "semantica.slep", "payload": {"ms": 1}})
    assert (error.code, error.data["code"]) == (4000, "E_NO_HANDLER")
    error = await refused(
        shared, "template.put", name="t", spec={"job_type": "semantica.sleep", "payload": {"ms": "1"}}
    )
    assert error.code in (-32602, 4000)
    assert counts(shared_home) == before


async def test_overrides_that_make_a_job_that_nobody_can_run(shared: Harness, shared_home: Path) -> None:
    await shared.call("template.put", name="sleeps", spec={"job_type": "semantica.sleep", "payload": {"ms": 1}})
    before = counts(shared_home)
    params = {"name": "s", "template_id": "sleeps", "cron_expression": "@daily", "param_overrides": {"ms": "long"}}
    error = await refused(shared, "schedule.put", **params)
    assert error.code in (-32602, 4000)
    assert "ms" in error.message
    assert counts(shared_home) == before


async def test_what_does_not_go_with_its_template_is_named_where_the_caller_has_it(
    shared: Harness, shared_home: Path
) -> None:
    await shared.call("template.put", name="sound", spec=NOOP)
    job = {**NOOP, "template_id": "sound", "schedule": {"type": "AFTER"}}
    await check(shared, shared_home, "job.enqueue", job, "$.schedule.delay_ms")
    await check(shared, shared_home, "job.enqueue_many", {"jobs": [NOOP, job]}, "$.jobs[1].schedule.delay_ms")


async def test_a_time_in_the_past_runs_now_and_says_so(manual: Harness) -> None:
    ack = await manual.enqueue(schedule={"type": "AT", "scheduled_at": START - 1})
    assert (ack["state"], ack["warnings"]) == ("QUEUED", ["the scheduled time is in the past: it runs now"])
    waits = await manual.enqueue(schedule={"type": "AT", "scheduled_at": 0, "wait_for_event": "e"})
    assert waits["warnings"] == ["the scheduled time is in the past: it does not delay it"]
    plan = await manual.call("job.plan", **NOOP, schedule={"type": "AT", "scheduled_at": START})
    assert (plan["state"], plan["warnings"]) == ("QUEUED", ["the scheduled time is in the past: it runs now"])
    await manual.settle()
    assert [await manual.state(one["job_id"]) for one in (ack, waits)] == ["DONE", "SCHEDULED"]


async def test_no_delay_at_all_is_a_delay(manual: Harness) -> None:
    ack = await manual.enqueue(schedule={"type": "AFTER", "delay_ms": 0})
    quiet = await manual.enqueue(subject_key="s", debounce_ms=0, max_wait_ms=0)
    assert [(one["state"], one["warnings"]) for one in (ack, quiet)] == [("QUEUED", [])] * 2
