"""worker.claim: which EXTERNAL jobs a worker gets, in which order, and what holds them back."""

from random import Random
from typing import Any

import msgspec
import pytest

from semantica_daemon.errors import InvalidParams, WorkerNotFound
from semantica_daemon.store.database import Database
from semantica_daemon.store.writes.lost import lost
from semantica_daemon.store.writes.queues import configure, pause, resume
from semantica_daemon.store.writes.reservations import acquire, release
from semantica_daemon.store.writes.retry import retry
from semantica_daemon.store.writes.worker_claim import MOST_BYTES
from semantica_daemon.store.writes.workers import FORGET_AFTER_MS
from semantica_daemon.wire.job import RetryParams
from semantica_daemon.wire.queue import ConfigureParams, PauseParams, Rate, ResumeParams
from semantica_daemon.wire.reservation import AcquireParams, ReleaseParams
from tests.builders import ADMISSION, NOW, Store, admitted
from tests.cases import each_case
from tests.store.steps import LATER, WHEN_IDLE, claims, end, event_types, put, runs, states, stop, tick
from tests.store.workers import (
    LEASE,
    begin_external,
    end_external,
    put_external,
    registered,
    take,
    taken_ids,
)


def test_a_claim_begins_a_run_of_the_worker_with_a_lease(store: Store) -> None:
    worker = registered(store)
    job_id = put_external(store, payload={"n": 1}, timeout_ms=5000)
    assert claims(store) == [], "no slot takes it"
    (claimed,) = take(store, worker)
    job, (run,) = store.job(job_id), runs(store, job_id)
    assert (job["state"], job["started_at"], job["run_id"], job["blocked_by"]) == (
        "RUNNING", NOW, claimed.run.run_id, None,
    )  # fmt: skip
    assert (run["run_id"], run["worker_id"], run["status"]) == (claimed.run.run_id, worker, "RUNNING")
    (lease,) = store.rows("SELECT * FROM leases")
    assert (lease["run_id"], lease["worker_id"], lease["job_number"]) == (run["run_id"], worker, job["number"])
    assert lease["expires_at"] == claimed.lease_expires_at == NOW + LEASE
    assert lease["ends_at"] == NOW + 5000
    assert store.committed is not None
    assert store.committed.due == NOW + LEASE
    assert (claimed.view.state, claimed.view.worker_id, claimed.view.execution_mode) == ("RUNNING", worker, "EXTERNAL")
    assert msgspec.json.decode(claimed.view.payload) == {"n": 1}
    assert event_types(store, job_id) == ["job.queued", "job.started"]
    assert store.database._counts.used_slots == 0, "it takes no slot"


def test_jobs_are_taken_by_priority_and_arrival_over_all_queues_types_and_keys(store: Store) -> None:
    worker = registered(store)
    low = put_external(store, priority=-1)
    a = put_external(store, queue="a")
    b = put_external(store, "other", queue="b", concurrency_key="k")
    c = put_external(store, queue="a", chain_group_id="g")
    high = put_external(store, queue="c", priority=5)
    assert taken_ids(store, worker, 2) == [high, a]
    assert taken_ids(store, worker) == [b, c, low]


@each_case(
    ("wanted", "expected"),
    [
        ({}, ["qx", "qy", "rx"]),
        ({"queues": ["q"]}, ["qx", "qy"]),
        ({"job_types": ["x"]}, ["qx", "rx"]),
        ({"queues": ["r", "q"], "job_types": ["y"]}, ["qy"]),
        ({"queues": ["nowhere"]}, []),
        ({"job_types": []}, []),
    ],
)
def test_a_worker_gets_only_what_its_filter_names(forged: Store, wanted: dict[str, Any], expected: list[str]) -> None:
    worker = registered(forged)
    stop(forged, queue="q")
    stop(forged, queue="r")
    names = {}
    for queue, kind in ("qx", "qy", "rx"):
        names[put_external(forged, kind, queue=queue)] = queue + kind
    assert [names[job_id] for job_id in taken_ids(forged, worker, **wanted)] == expected


def test_two_workers_never_get_one_job(store: Store) -> None:
    one, two = registered(store), registered(store)
    jobs = [put_external(store) for _ in range(4)]
    assert taken_ids(store, one, 2) + taken_ids(store, two, 2) == jobs
    assert taken_ids(store, one) == []


def test_a_paused_queue_gives_nothing_until_it_resumes(store: Store) -> None:
    worker, held, free = registered(store), put_external(store, queue="a"), put_external(store, queue="b")
    store.run(pause, PauseParams("a"))
    assert taken_ids(store, worker) == [free]
    store.run(resume, ResumeParams("a"))
    assert taken_ids(store, worker) == [held]


def test_a_reservation_keeps_workers_from_jobs(store: Store) -> None:
    worker, job_id = registered(store), put_external(store)
    reserved = store.run(acquire, AcquireParams("me"))
    assert taken_ids(store, worker) == []
    store.run(release, ReleaseParams(reserved.reservation_id))
    assert taken_ids(store, worker) == [job_id]


def test_a_key_and_a_group_bound_workers_and_slots_together(store: Store) -> None:
    worker = registered(store)
    put(store, "semantica.noop", concurrency_key="k")
    (inside,) = claims(store)
    keyed, free = put_external(store, concurrency_key="k"), put_external(store)
    assert taken_ids(store, worker) == [free]
    end(store, inside)
    (claimed,) = take(store, worker)
    assert claimed.run.job_id == keyed
    put(store, "semantica.noop", concurrency_key="k")
    assert claims(store) == []
    end_external(store, worker, claimed.run.run_id)
    assert len(claims(store)) == 1


def test_jobs_of_one_key_are_given_one_at_a_time(store: Store) -> None:
    worker = registered(store)
    first, second = [put_external(store, concurrency_key="k") for _ in range(2)]
    assert taken_ids(store, worker, 5) == [first]
    tick(store, LEASE)
    assert taken_ids(store, worker, 5) == [second]


def test_keys_of_external_jobs_take_turns(store: Store) -> None:
    store.run(configure, ConfigureParams("default", keys={"*": 100}))
    worker = registered(store)
    loud = [put_external(store, concurrency_key="loud") for _ in range(3)]
    quiet = put_external(store, concurrency_key="quiet")
    assert taken_ids(store, worker).index(quiet) < 2
    assert loud


def test_a_rate_bounds_claims(store: Store) -> None:
    store.run(configure, ConfigureParams("default", rate=Rate(2, 1000)))
    worker, jobs = registered(store), [put_external(store) for _ in range(3)]
    assert taken_ids(store, worker) == jobs[:2]
    assert store.committed is not None
    assert store.committed.due is not None
    opens_at = store.committed.due
    assert tick(store) == opens_at
    store.now = opens_at
    assert taken_ids(store, worker) == jobs[2:]


def test_slots_of_a_queue_do_not_bound_workers(store: Store) -> None:
    worker, jobs = registered(store), [put_external(store, queue="none") for _ in range(3)]
    assert taken_ids(store, worker) == jobs


def test_a_job_that_is_cancelled_or_late_is_not_given_away(store: Store) -> None:
    worker = registered(store)
    gone, mortal = put_external(store), put_external(store, ttl_ms=10)
    limited, good = put_external(store, deadline=NOW + 10), put_external(store)
    stop(store, gone)
    store.now += 10
    assert taken_ids(store, worker) == [good]
    assert states(store, gone, mortal, limited) == ["CANCELLED", "SKIPPED_TTL", "SKIPPED_DEADLINE"]


def test_a_job_is_claimable_when_it_is_due(store: Store) -> None:
    worker, job_id = registered(store), put_external(store, schedule=LATER)
    assert taken_ids(store, worker) == []
    tick(store, 5000)
    assert taken_ids(store, worker) == [job_id]


def test_a_job_that_needs_an_idle_machine_is_given_only_then(store: Store) -> None:
    worker, job_id = registered(store), put_external(store, schedule=WHEN_IDLE)
    store.machine(idle=True)
    tick(store)
    assert states(store, job_id) == ["QUEUED"]
    store.machine()
    assert taken_ids(store, worker) == [], "it is checked again at the claim"
    store.run(lost, None)
    assert states(store, job_id) == ["SCHEDULED"]
    store.machine(idle=True)
    tick(store)
    assert taken_ids(store, worker) == [job_id]


def test_a_lane_has_one_external_run_at_a_time(store: Store) -> None:
    worker = registered(store)
    older = begin_external(store, worker, subject_key="s")
    newer = put_external(store, subject_key="s")
    assert store.job(newer)["claim_class"] == 4
    assert taken_ids(store, worker) == []
    end_external(store, worker, older.run.run_id)
    assert taken_ids(store, worker) == [newer]


def test_a_lane_is_shared_by_external_jobs_and_others(store: Store) -> None:
    worker = registered(store)
    put(store, "semantica.noop", subject_key="s")
    (inside,) = claims(store)
    outside = put(store, "semantica.noop", subject_key="s", execution_mode="EXTERNAL").job_id
    assert taken_ids(store, worker) == []
    end(store, inside)
    waiting = put(store, "semantica.noop", subject_key="s", execution_mode="EXTERNAL").job_id
    assert states(store, outside) == ["SUPERSEDED"]
    assert taken_ids(store, worker) == [waiting]


def test_external_jobs_keep_their_order_across_a_restart(store: Store) -> None:
    before = [put_external(store, priority=priority) for priority in (0, 5, 0)]
    store.database = Database(store.connection, store.limits, Random(1), ADMISSION, store.current)
    worker = registered(store)
    after = put_external(store)
    assert taken_ids(store, worker) == [before[1], before[0], before[2], after]


def test_a_retry_of_an_external_job_is_one(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker, max_attempts=2, payload={"a": 1})
    end_external(store, worker, claimed.run.run_id)
    again = store.run(retry, RetryParams(claimed.run.job_id)).job_id
    assert taken_ids(store, worker) == [again]


def test_a_claim_returns_no_more_than_a_message_holds(store: Store) -> None:
    worker, text = registered(store), "x" * (MOST_BYTES // 2)
    jobs = [put_external(store, payload={"text": text}) for _ in range(3)]
    assert taken_ids(store, worker) == jobs[:2]
    assert taken_ids(store, worker) == jobs[2:]


def test_an_unknown_worker_claims_nothing(store: Store) -> None:
    job_id = put_external(store)
    with pytest.raises(WorkerNotFound):
        take(store, "nobody")
    assert states(store, job_id) == ["QUEUED"]


def test_an_external_job_takes_no_slots(store: Store) -> None:
    with pytest.raises(InvalidParams, match=r"\$\.slots"):
        admitted("work", execution_mode="EXTERNAL", slots=2)
    with pytest.raises(InvalidParams, match=r"\$\.limits"):
        admitted("work", execution_mode="EXTERNAL", limits={"nice": 5})
    assert admitted("work", execution_mode="EXTERNAL", environment={"A": "1"}).warnings


def test_workers_that_were_silent_for_a_day_are_forgotten(store: Store) -> None:
    idle, busy = registered(store), registered(store)
    put_external(store)
    take(store, busy, lease_ms=2 * FORGET_AFTER_MS)
    store.now += FORGET_AFTER_MS + 1
    new = registered(store)
    assert {row["worker_id"] for row in store.rows("SELECT worker_id FROM workers")} == {busy, new}
    assert idle != new
