"""A schedule fires: one transaction makes the job and advances the schedule; a time without a job has an event."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.errors import InternalError, QueueFull
from tests.builders import NOW, Store
from tests.store.steps import claims, end, put, states, tick
from tests.store.timetable import MINUTE, made, payloads, schedule, switch, template, the_schedule, trigger


@pytest.fixture(autouse=True)
def of_a_template(forged: Store) -> None:
    template(forged, payload={"a": 1, "b": 2})


def test_it_fires_on_time_and_not_a_ms_earlier(store: Store) -> None:
    kept = schedule(store, param_overrides={"b": 3})
    assert tick(store, MINUTE - 1) == NOW + MINUTE
    assert made(store) == []
    assert tick(store, 1) == NOW + 2 * MINUTE
    (job,) = made(store)
    assert (job["state"], msgspec.json.decode(job["payload"])) == ("QUEUED", {"a": 1, "b": 3})
    assert (job["schedule_id"], store.job(job["id"])["template_id"]) == (
        kept.schedule_id,
        the_schedule(store)["template_id"],
    )


def test_the_job_the_advance_and_the_events_are_one_transaction(store: Store) -> None:
    kept = schedule(store)
    tick(store, MINUTE + 5)
    (job,) = made(store)
    row = the_schedule(store)
    assert (row["last_triggered_at"], row["last_job_id"]) == (NOW + MINUTE + 5, job["id"])
    assert row["next_trigger_at"] == NOW + 2 * MINUTE
    assert row["updated_at"] == NOW, "firing is no edit"
    assert store.committed is not None
    kinds = [recorded.event.event_type for recorded in store.committed.events]
    assert kinds == ["job.queued", "schedule.fired"]
    fired = {"schedule_id": kept.schedule_id, "name": "s", "trigger_at": NOW + MINUTE, "job_id": job["id"]}
    assert payloads(store, "schedule.fired") == [fired]


def test_a_commit_that_is_lost_has_neither_fired_nor_advanced(store: Store) -> None:
    schedule(store)
    before = the_schedule(store)
    taken = store.database.sequence + 1
    store.connection.execute(
        "INSERT INTO job_events (sequence, timestamp_at, event_type, level, message, payload) "
        "VALUES (?, 1, 'x.x', 'info', '', '{}')",
        (taken,),
    )
    with pytest.raises(InternalError, match="cannot be stored"):
        tick(store, MINUTE)
    assert (the_schedule(store), made(store)) == (before, [])
    store.connection.execute("DELETE FROM job_events WHERE sequence = ?", (taken,))
    store.database._load()
    tick(store), tick(store)
    assert len(made(store)) == 1


FULL: dict[str, Any] = {"queue": "small"}


def test_a_full_queue_fails_the_time_and_the_schedule_continues(store: Store) -> None:
    template(store, **FULL)
    put(store, **FULL), put(store, **FULL)
    kept = schedule(store)
    tick(store, MINUTE)
    assert made(store) == []
    (failed,) = payloads(store, "schedule.failed")
    assert (failed["schedule_id"], failed["trigger_at"], failed["code"]) == (
        kept.schedule_id, NOW + MINUTE, QueueFull.code,
    )  # fmt: skip
    event = store.events()[-1]
    assert (event["level"], event["message"].startswith("schedule s: made no job: queue small")) == ("error", True)
    row = the_schedule(store)
    assert (row["next_trigger_at"], row["last_triggered_at"]) == (NOW + 2 * MINUTE, None)
    for claimed in claims(store):
        end(store, claimed)
    tick(store, MINUTE)
    assert len(made(store)) == 1


BROKEN = {
    "the handler is gone": '{"job_type": "gone", "execution_mode": "IN_PROCESS"}',
    "a field that this version does not know": '{"job_type": "semantica.noop", "unknown": 1}',
    "no spec at all": "[]",
}


@pytest.mark.parametrize("spec", BROKEN.values(), ids=BROKEN)
def test_a_template_that_makes_no_job_any_more_stops_no_other_schedule(store: Store, spec: str) -> None:
    broken, whole = schedule(store, "broken"), schedule(store, "whole", template_id=template(store, "u").template_id)
    waiting = put(store, schedule={"type": "AFTER", "delay_ms": 5}).job_id
    store.connection.execute("UPDATE templates SET spec = ? WHERE name = 't'", (spec,))
    assert tick(store, MINUTE) == NOW + 2 * MINUTE
    assert (made(store, "broken"), len(made(store, "whole")), states(store, waiting)) == ([], 1, ["QUEUED"])
    assert [event["schedule_id"] for event in payloads(store, "schedule.failed")] == [broken.schedule_id]
    assert the_schedule(store, "broken")["next_trigger_at"] == the_schedule(store, "whole")["next_trigger_at"]
    assert whole.created


def test_a_schedule_without_its_zone_has_no_next_time_and_stops_no_other(store: Store) -> None:
    schedule(store, "lost"), schedule(store, "whole")
    store.connection.execute("UPDATE schedules SET timezone = 'Europe/Nowhere' WHERE name = 'lost'")
    assert tick(store, MINUTE) == NOW + 2 * MINUTE
    assert (made(store, "lost"), len(made(store, "whole"))) == ([], 1)
    row = the_schedule(store, "lost")
    assert (row["next_trigger_at"], row["enabled"]) == (None, 1)
    assert len(payloads(store, "schedule.failed")) == 1


@pytest.mark.parametrize("enabled", [True, False])
def test_trigger_fires_now_whatever_the_cron_says(store: Store, enabled: bool) -> None:
    kept = schedule(store, cron="0 0 1 1 *", enabled=enabled)
    store.now += 5
    done = trigger(store)
    assert done.job is not None
    assert (done.job.state, done.skipped, done.next_trigger_at) == ("QUEUED", None, kept.next_trigger_at)
    row = the_schedule(store)
    assert (row["last_triggered_at"], row["last_job_id"]) == (NOW + 5, done.job.job_id)
    assert row["next_trigger_at"] == kept.next_trigger_at
    (fired,) = payloads(store, "schedule.fired")
    assert fired["trigger_at"] == NOW + 5


def test_a_trigger_obeys_overlap(store: Store) -> None:
    schedule(store, overlap="skip", enabled=False)
    first = trigger(store)
    second = trigger(store, the_schedule(store)["schedule_id"])
    assert first.job is not None
    assert (second.job, second.skipped) == (None, "overlap")
    assert the_schedule(store)["last_job_id"] == first.job.job_id
    assert [event["reason"] for event in payloads(store, "schedule.skipped")] == ["overlap"]


def test_a_trigger_that_is_refused_writes_nothing(store: Store) -> None:
    template(store, **FULL)
    schedule(store)
    put(store, **FULL), put(store, **FULL)
    before = the_schedule(store), store.events()
    with pytest.raises(QueueFull):
        trigger(store)
    assert (the_schedule(store), store.events()) == before


def test_a_trigger_does_not_take_the_place_of_the_next_time(store: Store) -> None:
    schedule(store, overlap="supersede")
    store.now += MINUTE - 1
    trigger(store)
    tick(store, 1)
    assert len(made(store)) == 2


def test_a_schedule_that_is_disabled_between_due_and_fired_does_not_fire(store: Store) -> None:
    schedule(store)
    store.now += MINUTE
    switch(store, False)
    tick(store)
    assert made(store) == []
