"""job.plan says what an enqueue would do, and does nothing."""

from typing import Any

import pytest

from semantica_daemon.errors import QueueFull
from semantica_daemon.store.writes.enqueue import forecast
from semantica_daemon.store.writes.groups import create
from semantica_daemon.store.writes.queues import configure
from semantica_daemon.wire.group import CreateGroupParams
from semantica_daemon.wire.job import Forecast
from semantica_daemon.wire.queue import ConfigureParams, Rate
from semantica_daemon.wire.reason import Reason
from tests.builders import NOW, Store, admitted
from tests.store.steps import begin, put
from tests.store.timetable import template


def plan(store: Store, **spec: Any) -> Forecast:
    before = _everything(store)
    planned: Forecast = store.run(forecast, admitted(**spec))
    assert _everything(store) == before
    return planned


def _everything(store: Store) -> list[Any]:
    tables = ("jobs", "job_conditions", "job_events", "lanes", "idempotency", "queue_counts")
    return [store.rows(f"SELECT * FROM {table}") for table in tables]


def test_a_job_with_nothing_in_its_way(store: Store) -> None:
    reasons = [Reason("slots", "a slot has to be free")]
    assert plan(store) == Forecast((), (), None, "QUEUED", "when a slot is free", reasons=reasons)


def test_what_would_be_superseded_and_interrupted(store: Store) -> None:
    running = begin(store, subject_key="s")
    waiting = put(store, subject_key="s")
    finishing = plan(store, subject_key="s")
    assert (finishing.would_supersede, finishing.would_interrupt) == ((waiting.job_id,), ())
    assert "lane" in finishing.starts_when
    cancelling = plan(store, subject_key="s", on_running="cancel")
    assert cancelling.would_interrupt == (running.run.job_id,)


def test_a_job_that_exists(store: Store) -> None:
    known = put(store, subject_key="s", generation=5, idempotency_key="k")
    assert plan(store, subject_key="s", generation=5).existing == known.job_id
    by_key = plan(store, subject_key="s", generation=5, idempotency_key="k")
    assert (by_key.existing, by_key.state) == (known.job_id, "QUEUED")


def test_a_stale_arrival(store: Store) -> None:
    put(store, subject_key="s", generation=5)
    planned = plan(store, subject_key="s", generation=4)
    assert (planned.state, planned.would_supersede, planned.existing) == ("SUPERSEDED", (), None)
    assert planned.starts_when.startswith("never")
    assert planned.warnings


def test_a_job_for_later(store: Store) -> None:
    planned = plan(store, schedule={"type": "AFTER", "delay_ms": 50})
    assert planned.state == "SCHEDULED"
    assert str(NOW + 50) in planned.starts_when
    assert (planned.starts_at, [reason.kind for reason in planned.reasons]) == (NOW + 50, ["time", "slots"])


def test_a_full_queue(store: Store) -> None:
    put(store, queue="small")
    put(store, queue="small")
    with pytest.raises(QueueFull):
        plan(store, queue="small")


SPECS: list[dict[str, Any]] = [
    {},
    {"subject_key": "s"},
    {"subject_key": "s", "on_running": "cancel"},
    {"subject_key": "s", "supersede": "subject"},
    {"subject_key": "s", "supersede": "none"},
    {"subject_key": "s", "schedule": {"type": "AT", "scheduled_at": NOW - 1}},
    {"subject_key": "s", "schedule": {"type": "AFTER", "delay_ms": 5, "wait_for_event": "e"}},
    {"subject_key": "s", "schedule": {"type": "CONDITION", "wait_for_idle": True, "conditions": {"a": "1"}}},
    {"subject_key": "s", "debounce_ms": 5, "max_wait_ms": 5},
    {"subject_key": "s", "template_id": "t"},
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_enqueue_does_what_the_plan_said(store: Store, spec: dict[str, Any]) -> None:
    template(store, schedule={"type": "AFTER", "delay_ms": 5})
    begin(store, subject_key="s")
    put(store, subject_key="s")
    put(store, "semantica.echo", subject_key="s")
    planned = plan(store, **spec)
    ack = put(store, **spec)
    assert (ack.superseded, ack.state, ack.warnings) == (planned.would_supersede, planned.state, planned.warnings)
    assert store.committed is not None
    assert len(store.committed.stops) == len(planned.would_interrupt)


def test_a_limit_that_would_hold_it_back(store: Store) -> None:
    store.run(configure, ConfigureParams("rated", rate=Rate(1, 1000)))
    store.run(create, CreateGroupParams("g", "sequential"))
    begin(store, queue="rated", concurrency_key="k", chain_group_id="g")
    found = [
        plan(store, queue="rated", concurrency_key="k"),
        plan(store, chain_group_id="g"),
        plan(store, queue="rated"),
        plan(store, concurrency_key="k"),
    ]
    assert [one.reasons[0].kind for one in found] == ["key", "group", "rate", "slots"]
    assert [one.starts_when for one in found[:3]] == [
        "when fewer jobs with the key k run and a slot is free",
        "when fewer jobs of group g run and a slot is free",
        "when the rate of queue rated allows it and a slot is free",
    ]
