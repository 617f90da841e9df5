"""A spec: what its fields say together, what this version refuses, and what its hash stands for."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.errors import InvalidParams, NotSupported
from semantica_daemon.model.job import check, spec_hash
from semantica_daemon.wire.job import JobSpec, Schedule
from tests.cases import each_case


def spec(**fields: Any) -> JobSpec:
    return msgspec.convert({"job_type": "t", **fields}, JobSpec)


@each_case(
    "fields",
    [
        {},
        {"subject_key": "s", "generation": 0},
        {"schedule": {"type": "AT", "scheduled_at": 5}},
        {"schedule": {"type": "AFTER", "delay_ms": 0}},
        {"schedule": {"type": "IMMEDIATE", "wait_for_idle": False, "conditions": {}}},
        {"schedule": {"type": "AT", "scheduled_at": 5, "delay_ms": 5, "wait_for_idle": True, "conditions": {"a": ""}}},
        {"schedule": {"type": "AFTER", "scheduled_at": 5, "delay_ms": 5, "require_charging": True}},
        {"schedule": {"type": "CONDITION", "wait_for_idle": True}},
        {"schedule": {"type": "CONDITION", "require_charging": True}},
        {"schedule": {"type": "CONDITION", "wait_for_event": "git:commit", "scheduled_at": 5, "delay_ms": 5}},
        {"schedule": {"type": "CONDITION", "conditions": {"a": "b"}}},
        {"schedule": {"type": "CONDITION", "wait_for_idle": True}, "stop_when_lost": True},
        {"schedule": {"type": "AFTER", "delay_ms": 5, "require_charging": True}, "stop_when_lost": True},
        {"subject_key": "s", "debounce_ms": 5},
        {"subject_key": "s", "debounce_ms": 5, "max_wait_ms": 5, "supersede": "subject"},
        {"subject_key": "s", "debounce_ms": 0, "max_wait_ms": 0},
        {"template_id": "t"},
        {"workspace": False, "stop_when_lost": False},
        {"env_vars": {"A": "b", "_1": ""}, "leftovers": "keep"},
    ],
)
def test_a_sound_spec_passes(fields: dict[str, Any]) -> None:
    check(spec(**fields))


@each_case(
    ("path", "fields"),
    [
        ("$.workspace", {"workspace": True}),
        ("$.inputs", {"inputs": ["a"]}),
    ],
)
def test_what_a_later_version_brings_is_refused_by_name(path: str, fields: dict[str, Any]) -> None:
    with pytest.raises(NotSupported) as refused:
        check(spec(**fields))
    assert (refused.value.number, refused.value.code) == (4000, "E_NOT_SUPPORTED")
    assert refused.value.details == {"path": path}
    assert path in refused.value.message


@each_case(
    ("path", "fields"),
    [
        ("$.generation", {"generation": 1}),
        ("$.schedule.scheduled_at", {"schedule": {"type": "AT"}}),
        ("$.schedule.delay_ms", {"schedule": {"type": "AFTER"}}),
        ("$.schedule.scheduled_at", {"schedule": {"scheduled_at": 1}}),
        ("$.schedule.delay_ms", {"schedule": {"delay_ms": 1}}),
        ("$.schedule.delay_ms", {"schedule": {"delay_ms": 0}}),
        ("$.schedule.scheduled_at", {"schedule": {"type": "AT", "delay_ms": 1, "wait_for_idle": True}}),
        ("$.schedule.delay_ms", {"schedule": {"type": "AFTER", "scheduled_at": 1, "wait_for_idle": True}}),
        ("$.schedule.wait_for_idle", {"schedule": {"wait_for_idle": True}}),
        ("$.schedule.require_charging", {"schedule": {"require_charging": True}}),
        ("$.schedule.wait_for_event", {"schedule": {"wait_for_event": "git:commit"}}),
        ("$.schedule.conditions", {"schedule": {"conditions": {"a": "b"}}}),
        ("$.schedule", {"schedule": {"type": "CONDITION"}}),
        ("$.schedule", {"schedule": {"type": "CONDITION", "scheduled_at": 5}}),
        ("$.schedule", {"schedule": {"type": "CONDITION", "conditions": {}, "wait_for_idle": False}}),
        ("$.debounce_ms", {"debounce_ms": 5}),
        ("$.debounce_ms", {"debounce_ms": 5, "subject_key": "s", "supersede": "none"}),
        ("$.max_wait_ms", {"max_wait_ms": 5, "subject_key": "s"}),
        ("$.max_wait_ms", {"debounce_ms": 5, "max_wait_ms": 4, "subject_key": "s"}),
        ("$.stop_when_lost", {"stop_when_lost": True}),
        ("$.stop_when_lost", {"stop_when_lost": True, "schedule": {"type": "CONDITION", "wait_for_event": "e"}}),
    ],
)
def test_fields_that_do_not_go_together_are_refused_with_their_path(path: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams) as refused:
        check(spec(**fields))
    assert refused.value.number == -32602
    assert refused.value.details == {"path": path}
    assert path in refused.value.message
    assert refused.value.hint


@each_case(
    "fields",
    [
        {"unknown": 1},
        {"job_type": ""},
        {"job_type": "t" * 129},
        {"queue": ""},
        {"queue": "q" * 65},
        {"subject_key": ""},
        {"subject_key": "s" * 513},
        {"subject_key": "a\0b"},
        {"subject_key": "s", "generation": -1},
        {"subject_key": "s", "generation": 2**63},
        {"priority": 101},
        {"priority": -101},
        {"max_attempts": -1},
        {"ttl_ms": -1},
        {"timeout_ms": 0},
        {"backoff_factor": 0.5},
        {"backoff_base_ms": -1},
        {"deadline": 2**62},
        {"payload": []},
        {"supersede": "all"},
        {"on_running": "kill"},
        {"on_interrupt": "retry"},
        {"execution_mode": "THREAD"},
        {"leftovers": "kill"},
        {"env_vars": {"A": 1}},
        {"schedule": {"type": "CRON"}},
        {"schedule": {"at": 1}},
        {"schedule": {"type": "AFTER", "delay_ms": -1}},
        {"schedule": {"type": "AT", "scheduled_at": -1}},
        {"schedule": {"type": "AT", "scheduled_at": 10**15 + 1}},
        {"schedule": {"type": "CONDITION", "wait_for_event": ""}},
        {"schedule": {"type": "CONDITION", "wait_for_event": "e" * 257}},
        {"schedule": {"type": "CONDITION", "wait_for_event": "a\0b"}},
        {"schedule": {"type": "CONDITION", "wait_for_idle": 1}},
        {"schedule": {"type": "CONDITION", "conditions": {"": "v"}}},
        {"schedule": {"type": "CONDITION", "conditions": {"k": "v" * 1025}}},
        {"schedule": {"type": "CONDITION", "conditions": {"k": 1}}},
        {"schedule": {"type": "CONDITION", "conditions": {str(number): "" for number in range(101)}}},
        {"debounce_ms": -1},
        {"max_wait_ms": -1},
        {"stop_when_lost": 1},
        {"template_id": ""},
        {"traceparent": "00-x"},
        {"idempotency_key": ""},
    ],
)
def test_a_field_out_of_its_range_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        spec(**fields)


@each_case(
    ("fields", "path"),
    [
        ({"queue": "a b"}, "$.queue"),
        ({"queue": "ä"}, "$.queue"),
        ({"queue": "*"}, "$.queue"),
        ({"queue": "a\n"}, "$.queue"),
        ({"queue": "a/b"}, "$.queue"),
        ({"queue": "a\0"}, "$.queue"),
        ({"job_type": "a\0b"}, "$.job_type"),
    ],
)
def test_a_name_with_a_character_that_it_may_not_have_is_refused(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        check(spec(**fields))
    assert refused.value.details["path"] == path


TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


@each_case(
    ("fields", "trace"),
    [
        ({}, None),
        ({"trace_id": "mine"}, "mine"),
        ({"traceparent": TRACE}, "a" * 32),
        ({"trace_id": "mine", "traceparent": TRACE}, "mine"),
        ({"traceparent": TRACE.replace("a", "0")}, None),
        ({"traceparent": TRACE.replace("b", "0")}, None),
        ({"traceparent": "ff" + TRACE[2:]}, None),
        ({"traceparent": "01" + TRACE[2:]}, "a" * 32),
    ],
)
def test_the_trace_is_the_one_given_else_the_parent_s(fields: dict[str, Any], trace: str | None) -> None:
    assert spec(**fields).trace == trace


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
payloads = st.dictionaries(st.text(max_size=5), json_values, max_size=4)


@given(payloads, st.text("abc", min_size=1), st.integers(0, 10**6), st.booleans())
def test_the_hash_leaves_out_what_may_differ_between_tries(
    payload: dict[str, Any], key: str, ttl_ms: int, durable: bool
) -> None:
    tries = {
        "idempotency_key": key,
        "idempotency_ttl_ms": ttl_ms,
        "durable": durable,
        "trace_id": key,
        "traceparent": TRACE,
        "force": durable,
    }
    assert spec_hash(spec(payload=payload, **tries)) == spec_hash(spec(payload=payload))


@given(payloads)
def test_the_hash_does_not_depend_on_the_order_of_keys(payload: dict[str, Any]) -> None:
    backwards = dict(reversed(payload.items()))
    assert spec_hash(spec(payload=payload)) == spec_hash(spec(payload=backwards))


VALUES: dict[str, Any] = {
    "job_type": "u", "payload": {"a": 1}, "queue": "other", "subject_key": "s", "generation": 3, "supersede": "none",
    "on_running": "cancel", "max_interrupts": 1, "debounce_ms": 1, "max_wait_ms": 1, "priority": 1,
    "execution_mode": "IN_PROCESS", "env_vars": {"A": "b"}, "schedule": {"type": "AFTER", "delay_ms": 1},
    "stop_when_lost": True, "max_attempts": 2, "backoff_factor": 3.0, "backoff_base_ms": 1, "timeout_ms": 1,
    "deadline": 1, "ttl_ms": 1, "grace_ms": 1, "on_interrupt": "requeue", "leftovers": "keep", "workspace": True,
    "inputs": ["a"], "parent_job_id": "#0", "parents": ["#0"], "slots": 2,
    "gather": True, "backoff": "linear", "backoff_max_ms": 1, "retry_on": {"exit_codes": [1]}, "chain_group_id": "g",
    "concurrency_key": "c", "user_tag": "u", "template_id": "t", "limits": {"nice": 1}, "hold": True,
}  # fmt: skip
BETWEEN_TRIES = {
    "idempotency_key", "idempotency_ttl_ms", "idempotency_match", "durable", "trace_id", "traceparent", "force",
    "environment", "attach_id",
}  # fmt: skip


def test_every_other_field_is_in_the_hash() -> None:
    assert set(VALUES) | BETWEEN_TRIES == set(JobSpec.__struct_fields__)
    hashes = {field: spec_hash(spec(**{field: value})) for field, value in VALUES.items()}
    assert len({*hashes.values(), spec_hash(spec())}) == len(VALUES) + 1


def test_every_field_of_its_schedule_is_in_the_hash_too() -> None:
    fields: dict[str, Any] = {
        "type": "AT", "scheduled_at": 1, "delay_ms": 1, "wait_for_idle": True, "require_charging": True,
        "wait_for_event": "e", "conditions": {"a": "b"},
    }  # fmt: skip
    assert set(fields) == set(Schedule.__struct_fields__)
    hashes = {spec_hash(spec(schedule={field: value})) for field, value in fields.items()}
    assert len(hashes | {spec_hash(spec()), spec_hash(spec(schedule={"conditions": {"a": "c"}}))}) == len(fields) + 2


@each_case(
    ("schedule", "path"),
    [
        ({"type": "CONDITION", "wait_for_event": "semantica:turn:x"}, "$.schedule.wait_for_event"),
        ({"type": "CONDITION", "conditions": {"semantica:event:e": ""}}, "$.schedule.conditions"),
        ({"type": "CONDITION", "conditions": {"a": "1", "job:x": "DONE"}}, "$.schedule.conditions"),
        ({"type": "CONDITION", "conditions": {"job:1f3a": "RUNNING"}}, "$.schedule.conditions.job:1f3a"),
    ],
)
def test_no_job_waits_for_a_key_that_only_the_daemon_opens(schedule: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        check(spec(schedule=schedule))
    assert refused.value.details["path"] == path
