"""job.retry, and `force` of an enqueue: an ended job is repeated by a new one, inside the rules of its lane."""

from typing import Any

import pytest

from semantica_daemon.errors import InvalidParams, NotEnded, SecretLost, Stale
from semantica_daemon.model.job import LATER
from semantica_daemon.store.writes import new_job
from semantica_daemon.store.writes.retry import SAME, retry
from semantica_daemon.wire.job import Ack, JobSpec, RetryParams
from tests.builders import Store
from tests.store.steps import BAD, COMMAND, GOOD, HOPELESS, begin, claimed_ids, claims, end, put, states, stop, tick

LANE: dict[str, Any] = {"subject_key": "s", "generation": 7}


def again(store: Store, job_id: str, **params: Any) -> Ack:
    ack: Ack = store.run(retry, RetryParams(job_id=job_id, **params))
    return ack


def failed(store: Store, **spec: Any) -> str:
    claimed = begin(store, **spec)
    end(store, claimed, HOPELESS)
    return claimed.run.job_id


def test_a_retry_is_a_new_job_with_the_settings_of_the_old_one(store: Store) -> None:
    settings: dict[str, Any] = {
        "queue": "q", "priority": 5, "user_tag": "t", "chain_group_id": "g", "max_attempts": 3, "ttl_ms": 60_000,
        "timeout_ms": 500, "grace_ms": 20, "on_interrupt": "requeue", "leftovers": "keep", "trace_id": "trace",
        "backoff_base_ms": 10, "backoff": "linear", "backoff_max_ms": 70,
        "retry_on": {"exit_codes": [75]}, "env_vars": {"A": "1"}, "on_running": "cancel", "max_interrupts": 9,
    }  # fmt: skip
    old = put(store, **COMMAND, **settings, idempotency_key="k", debounce_ms=100, subject_key="s")
    stop(store, old.job_id)
    new = store.job(again(store, old.job_id).job_id)
    before = store.job(old.job_id)
    same = (*settings.keys() - {"env_vars"}, "env_vars", "payload", "execution_mode", "subject_key", "generation")
    assert {name: new[name] for name in same} == {name: before[name] for name in same}
    assert (new["state"], new["retry_of"], new["attempts"]) == ("QUEUED", old.job_id, 0)
    assert (new["debounce_ms"], new["idempotency_key"]) == (None, None)


def test_every_field_of_a_spec_is_repeated_or_left_out_on_purpose() -> None:
    repeated = {*SAME, *new_job.COLUMNS, *new_job.REST, "on_running", "payload", "subject_key", "generation"}
    repeated |= {"schedule", "env_vars", "environment", "template_id"}
    repeated |= {"parents"}  # of which parent_job_id is the first
    of_the_request = {
        "parent_job_id",
        "hold",
        "force",
        "durable",
        "idempotency_ttl_ms",
        "idempotency_match",
        "traceparent",
    }
    assert set(JobSpec.__struct_fields__) == repeated | of_the_request | set(LATER)


def test_a_retry_waits_neither_for_a_time_nor_for_an_event_but_for_the_machine(store: Store) -> None:
    waits = {"type": "AT", "scheduled_at": store.now + 9000, "wait_for_event": "e", "require_charging": True}
    old = put(store, schedule=waits)
    stop(store, old.job_id)
    assert again(store, old.job_id).state == "SCHEDULED"
    store.machine(charging=True)
    new = again(store, old.job_id)
    row = store.job(new.job_id)
    assert (row["scheduled_at"], row["unmet"], row["require_charging"]) == (None, 0, 1)


def test_a_deadline_that_has_passed_is_left_out(store: Store) -> None:
    old = put(store, deadline=store.now + 10, schedule={"type": "AFTER", "delay_ms": 5})
    stop(store, old.job_id)
    store.now += 10
    new = again(store, old.job_id)
    assert (new.state, len(new.warnings)) == ("QUEUED", 1)


def test_a_payload_replaces_the_old_one(store: Store) -> None:
    old = failed(store, job_type="semantica.echo", payload={"a": 1, "b": 2})
    new = again(store, old, payload={"a": 3})
    assert store.job(new.job_id)["payload"] == '{"a":3}'


def test_a_live_job_is_not_retried(store: Store) -> None:
    job_id = put(store).job_id
    with pytest.raises(NotEnded) as refused:
        again(store, job_id)
    assert refused.value.details["job_id"] == job_id


def test_a_job_with_a_secret_is_not_retried_without_it(store: Store) -> None:
    old = put(store, **COMMAND, env_vars={"API_TOKEN": "x"}, schedule={"type": "AFTER", "delay_ms": 5}).job_id
    stop(store, old)
    with pytest.raises(SecretLost, match="API_TOKEN"):
        again(store, old)


def test_a_retry_in_a_lane_keeps_the_generation_and_is_the_job_that_the_lane_returns(store: Store) -> None:
    old = failed(store, **LANE)
    assert put(store, **LANE) == Ack(old, "default", "FAILED", 7, existing=True)
    new = again(store, old)
    assert (new.generation, new.existing) == (7, False)
    assert put(store, **LANE) == Ack(new.job_id, "default", "QUEUED", 7, existing=True)
    (claimed,) = claims(store)
    end(store, claimed, GOOD)
    assert put(store, **LANE).state == "DONE"


def test_a_generation_has_one_live_job(store: Store) -> None:
    old = failed(store, **LANE)
    new = again(store, old)
    with pytest.raises(NotEnded) as refused:
        again(store, old)
    assert refused.value.details["job_id"] == new.job_id


def test_a_newer_job_supersedes_a_retry_that_waits(store: Store) -> None:
    new = again(store, failed(store, **LANE))
    assert put(store, subject_key="s", generation=8).superseded == (new.job_id,)


def test_a_lane_counted_by_the_daemon_counts_on_after_a_retry(store: Store) -> None:
    old = failed(store, subject_key="s")
    assert again(store, old).generation == 1
    assert put(store, subject_key="s").generation == 2


def test_an_older_generation_is_retried_only_by_force_and_is_stale(store: Store) -> None:
    old = failed(store, subject_key="s", generation=1)
    newest = failed(store, subject_key="s", generation=2)
    with pytest.raises(Stale) as refused:
        again(store, old)
    assert refused.value.details["newest_job_id"] == newest
    new = again(store, old, force=True)
    row = store.job(new.job_id)
    assert (row["state"], row["stale"], row["superseded_by"], row["generation"]) == ("QUEUED", 1, newest, 1)
    assert put(store, subject_key="s", generation=2).job_id == newest
    (claimed,) = claims(store)
    assert end(store, claimed, BAD) == "FAILED"


def test_a_forced_retry_waits_for_the_newer_job_of_its_lane(store: Store) -> None:
    old = failed(store, subject_key="s", generation=1)
    newer = put(store, subject_key="s", generation=2)
    forced = again(store, old, force=True)
    assert (forced.superseded, states(store, newer.job_id)) == ((), ["QUEUED"])
    (claimed,) = claims(store)
    assert claimed.run.job_id == newer.job_id
    end(store, claimed, GOOD)
    assert claimed_ids(store) == [forced.job_id]


def test_a_forced_retry_supersedes_no_other_one(store: Store) -> None:
    first, second, _ = (failed(store, subject_key="s", generation=number) for number in (1, 2, 3))
    one, other = again(store, first, force=True), again(store, second, force=True)
    assert (other.superseded, states(store, one.job_id, other.job_id)) == ((), ["QUEUED", "QUEUED"])
    newest = put(store, subject_key="s", generation=4)
    assert sorted(newest.superseded) == sorted([one.job_id, other.job_id])


def test_a_forced_retry_that_is_cancelled_still_names_the_newer_job(store: Store) -> None:
    old = failed(store, subject_key="s", generation=1)
    newest = failed(store, subject_key="s", generation=2)
    forced = again(store, old, force=True).job_id
    stop(store, forced)
    assert store.job(forced)["superseded_by"] == newest


def test_a_retry_of_a_schedules_job_takes_its_turn(store: Store) -> None:
    old = failed(store)
    store.connection.execute("UPDATE jobs SET schedule_id = 'x' WHERE id = ?", (old,))
    first, second = again(store, old), again(store, old)
    assert states(store, first.job_id, second.job_id) == ["QUEUED", "SCHEDULED"]
    (claimed,) = claims(store)
    end(store, claimed, GOOD)
    tick(store)
    assert claimed_ids(store) == [second.job_id]


def test_a_retry_that_replaces_a_job_of_its_schedule_does_not_wait_for_it(store: Store) -> None:
    older, newest = (failed(store, subject_key="s", generation=number) for number in (1, 2))
    store.connection.execute("UPDATE jobs SET schedule_id = 'x'")
    forced, new = again(store, older, force=True), again(store, newest)
    assert new.superseded == (forced.job_id,)
    assert claimed_ids(store) == [new.job_id]


def test_force_runs_a_generation_again_whose_job_has_ended(store: Store) -> None:
    old = failed(store, **LANE)
    new = put(store, **LANE, force=True, user_tag="new")
    row = store.job(new.job_id)
    assert (new.existing, new.generation, row["retry_of"], row["user_tag"]) == (False, 7, old, "new")
    assert put(store, **LANE, force=True) == Ack(new.job_id, "default", "QUEUED", 7, existing=True)


def test_force_runs_an_older_generation_as_stale(store: Store) -> None:
    old = failed(store, subject_key="s", generation=1)
    newest = failed(store, subject_key="s", generation=2)
    new = put(store, subject_key="s", generation=1, force=True)
    row = store.job(new.job_id)
    assert (new.existing, new.state, row["retry_of"], row["stale"]) == (False, "QUEUED", old, 1)
    assert row["superseded_by"] == newest
    assert put(store, subject_key="s", generation=1, force=True).job_id == new.job_id
    assert put(store, subject_key="s", generation=1).job_id == old
    assert put(store, subject_key="s", generation=2).job_id == newest


def test_force_needs_a_generation(store: Store) -> None:
    with pytest.raises(InvalidParams, match="force"):
        put(store, subject_key="s", force=True)
