"""Heartbeats, ends and lost leases of external runs; what an old run reports late changes nothing."""

from typing import Any

import pytest

from semantica_daemon.errors import LeaseLost, RunOver, WorkerNotFound
from semantica_daemon.model.outcome import GIVEN_BACK, NOT_TAKEN, Outcome
from semantica_daemon.store.writes.recover import recover
from semantica_daemon.store.writes.report import Line, Report, RunResult, keep_result, report
from semantica_daemon.store.writes.worker_runs import GivenBack, RunToken, give_back
from semantica_daemon.wire.run import Progress
from tests.builders import NOW, Store
from tests.store.steps import BAD, HOPELESS, WHEN_IDLE, event_types, put, runs, states, stop, tick
from tests.store.test_clock import read
from tests.store.workers import (
    GRACE,
    LEASE,
    beat,
    begin_external,
    end_external,
    leave,
    put_external,
    registered,
    take,
    taken_ids,
)


def everything(store: Store) -> list[Any]:
    return [store.rows(f"SELECT * FROM {table}") for table in ("jobs", "job_runs", "job_events", "leases", "workers")]


def worker_row(store: Store, worker_id: str) -> dict[str, Any]:
    (row,) = store.rows("SELECT * FROM workers WHERE worker_id = ?", worker_id)
    return row


def leases(store: Store) -> list[dict[str, Any]]:
    return store.rows("SELECT * FROM leases")


def test_complete_ends_the_job_with_its_result(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker)
    store.now += 25
    job = end_external(store, worker, claimed.run.run_id, Outcome(result='{"n":1}'))
    assert (job.state, job.worker_id, job.finished_at) == ("DONE", worker, NOW + 25)
    assert (store.job(job.id)["result_summary"], leases(store)) == ('{"n":1}', [])
    row = worker_row(store, worker)
    assert (row["items_processed"], row["items_failed"], row["last_heartbeat"]) == (1, 0, NOW + 25)


def test_fail_follows_the_retry_rules(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker, max_attempts=2)
    assert end_external(store, worker, claimed.run.run_id, BAD).state == "SCHEDULED"
    tick(store, 1100)
    (again,) = take(store, worker)
    assert (again.run.job_id, again.run.attempt) == (claimed.run.job_id, 2)
    assert end_external(store, worker, again.run.run_id, HOPELESS).state == "FAILED"
    assert worker_row(store, worker)["items_failed"] == 2


def test_heartbeats_renew_leases(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker)
    for _ in range(5):
        store.now += LEASE - 1
        (lease,) = beat(store, worker).leases
        assert lease.lease_expires_at == store.now + LEASE
        tick(store)
    assert states(store, claimed.run.job_id) == ["RUNNING"]
    assert worker_row(store, worker)["last_heartbeat"] == store.now


def test_a_heartbeat_names_the_runs_that_are_not_its_own(store: Store) -> None:
    one, two = registered(store), registered(store)
    mine, theirs = begin_external(store, one).run.run_id, begin_external(store, two).run.run_id
    store.now += 10
    answer = beat(store, one, mine, theirs, "unknown")
    assert ([lease.run_id for lease in answer.leases], answer.lost) == ([mine], [theirs, "unknown"])
    expires = {lease["run_id"]: lease["expires_at"] for lease in leases(store)}
    assert expires == {mine: NOW + 10 + LEASE, theirs: NOW + LEASE}


def test_a_lost_lease_fails_the_run_and_the_retry_rules_apply(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker, max_attempts=2)
    assert tick(store, LEASE - 1) == NOW + LEASE
    assert states(store, claimed.run.job_id) == ["RUNNING"]
    tick(store, 1)
    job, (run,) = store.job(claimed.run.job_id), runs(store, claimed.run.job_id)
    assert (job["state"], job["error_code"], job["error_class"]) == ("SCHEDULED", "E_LEASE_LOST", "infra")
    assert (run["status"], leases(store), worker_row(store, worker)["items_failed"]) == ("FAILED", [], 1)
    tick(store, 1100)
    (again,) = take(store, worker)
    tick(store, LEASE)
    assert (store.job(again.run.job_id)["state"], store.job(again.run.job_id)["attempts"]) == ("FAILED", 2)


def test_a_job_that_is_to_be_requeued_is_put_back_when_its_lease_is_lost(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker, on_interrupt="requeue")
    tick(store, LEASE)
    job = store.job(claimed.run.job_id)
    assert (job["state"], job["attempts"], job["run_count"]) == ("QUEUED", 0, 1)
    assert [run["status"] for run in runs(store, job["id"])] == ["INTERRUPTED"]
    assert taken_ids(store, worker) == [job["id"]]


def test_what_an_old_run_reports_late_changes_nothing(store: Store) -> None:
    worker = registered(store)
    old = begin_external(store, worker, on_interrupt="requeue")
    tick(store, LEASE)
    take(store, registered(store))
    assert beat(store, worker, old.run.run_id).lost == [old.run.run_id]
    before = everything(store)
    for outcome in (Outcome(), BAD):
        with pytest.raises(LeaseLost):
            end_external(store, worker, old.run.run_id, outcome)
    token = RunToken(old.run_token, GRACE)
    with pytest.raises(RunOver):
        store.run(report, Report(token, (Line("late"),), Progress(percent=50)))
    with pytest.raises(RunOver):
        store.run(keep_result, RunResult(token, "1"))
    assert everything(store) == before


def test_a_foreign_or_unknown_worker_cannot_end_a_run(store: Store) -> None:
    owner, other = registered(store), registered(store)
    run_id = begin_external(store, owner).run.run_id
    before = everything(store)
    with pytest.raises(LeaseLost):
        end_external(store, other, run_id)
    for unknown in ("nobody", ""):
        with pytest.raises(WorkerNotFound):
            end_external(store, unknown, run_id)
        with pytest.raises(WorkerNotFound):
            beat(store, unknown)
        with pytest.raises(WorkerNotFound):
            leave(store, unknown)
    assert everything(store) == before


def test_a_timeout_and_a_deadline_bound_the_lease(store: Store) -> None:
    worker = registered(store)
    timed = begin_external(store, worker, timeout_ms=LEASE + 500, max_attempts=2)
    limited = begin_external(store, worker, deadline=NOW + LEASE + 700, max_attempts=2)
    store.now += LEASE - 1
    ends = {lease.run_id: lease.lease_expires_at for lease in beat(store, worker).leases}
    assert ends == {timed.run.run_id: NOW + LEASE + 500, limited.run.run_id: NOW + LEASE + 700}
    tick(store, 501)
    assert store.job(timed.run.job_id)["error_code"] == "E_TIMEOUT"
    assert "1.5s" in store.job(timed.run.job_id)["error_message"]
    beat(store, worker)
    tick(store, 200)
    job = store.job(limited.run.job_id)
    assert (job["state"], job["error_code"]) == ("FAILED", "E_DEADLINE")


def test_a_worker_that_leaves_gives_its_jobs_back(store: Store) -> None:
    worker, other = registered(store), registered(store)
    claimed = begin_external(store, worker)
    answer = leave(store, worker)
    job = store.job(claimed.run.job_id)
    assert answer.given_back == [job["id"]]
    assert (job["state"], job["attempts"], job["claim_attempts"]) == ("QUEUED", 0, 0)
    with pytest.raises(WorkerNotFound):
        take(store, worker)
    assert taken_ids(store, other) == [job["id"]]


def test_a_claim_that_nobody_took_is_put_back_at_most_twice(store: Store) -> None:
    worker, job_id = registered(store), put_external(store)
    for count in (1, 2):
        (claimed,) = take(store, worker)
        store.run(give_back, GivenBack(claimed.run, NOT_TAKEN))
        job = store.job(job_id)
        assert (job["state"], job["attempts"], job["claim_attempts"]) == ("QUEUED", 0, count)
    (claimed,) = take(store, worker)
    store.run(give_back, GivenBack(claimed.run, NOT_TAKEN))
    assert states(store, job_id) == ["FAILED"]


def test_a_claim_that_its_worker_has_cancelled_is_put_back_as_often_as_it_likes(store: Store) -> None:
    worker, job_id = registered(store), put_external(store)
    for _ in range(5):
        (claimed,) = take(store, worker)
        store.run(give_back, GivenBack(claimed.run, GIVEN_BACK))
    assert (store.job(job_id)["state"], store.job(job_id)["claim_attempts"]) == ("QUEUED", 0)


def test_a_cancel_reaches_the_worker_by_its_heartbeat_and_has_a_grace_period(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker)
    job_id, run_id = claimed.run.job_id, claimed.run.run_id
    assert stop(store, job_id).cancelling == [job_id]
    tick(store, 100)
    answer = beat(store, worker)
    assert (answer.cancel, answer.leases[0].lease_expires_at) == ([run_id], NOW + 100 + GRACE)
    tick(store, GRACE - 1)
    assert beat(store, worker).leases[0].lease_expires_at == NOW + 100 + GRACE, "it is not renewed any more"
    assert states(store, job_id) == ["RUNNING"]
    tick(store, 1)
    assert states(store, job_id) == ["CANCELLED"]
    assert beat(store, worker, run_id).lost == [run_id]


@pytest.mark.parametrize("outcome", [Outcome(), BAD])
def test_a_cancelled_run_ends_cancelled_however_its_worker_ends_it(store: Store, outcome: Outcome) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker, max_attempts=3)
    stop(store, claimed.run.job_id)
    assert end_external(store, worker, claimed.run.run_id, outcome).state == "CANCELLED"


def test_a_cancelled_run_whose_worker_is_silent_ends_with_its_lease(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker, max_attempts=3)
    stop(store, claimed.run.job_id)
    tick(store, LEASE)
    assert states(store, claimed.run.job_id) == ["CANCELLED"]


def test_a_newer_job_interrupts_an_external_run(store: Store) -> None:
    worker = registered(store)
    older = begin_external(store, worker, subject_key="s")
    newer = put_external(store, subject_key="s", on_running="cancel")
    assert beat(store, worker).cancel == [older.run.run_id]
    assert end_external(store, worker, older.run.run_id, BAD).state == "SUPERSEDED"
    assert taken_ids(store, worker) == [newer]


def test_a_run_that_needs_an_idle_machine_is_stopped_without_costing_an_attempt(store: Store) -> None:
    worker, job_id = registered(store), put_external(store, schedule=WHEN_IDLE, stop_when_lost=True)
    store.machine(idle=True)
    tick(store)
    (claimed,) = take(store, worker)
    assert beat(store, worker).cancel == []
    store.machine()
    assert beat(store, worker).cancel == [claimed.run.run_id]
    assert end_external(store, worker, claimed.run.run_id, BAD).state == "SCHEDULED"
    assert store.job(job_id)["attempts"] == 0
    store.machine(idle=True)
    tick(store)
    take(store, worker)
    store.machine()
    beat(store, worker)
    tick(store, GRACE)
    assert (states(store, job_id), store.job(job_id)["attempts"]) == (["SCHEDULED"], 0)


def test_progress_renews_the_lease_and_log_and_result_work_by_token(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker)
    token = RunToken(claimed.run_token, GRACE)
    store.now += 700
    ack = store.run(report, Report(token, (Line("a line"),), Progress(percent=50)))
    assert (ack.job_id, ack.cancel) == (claimed.run.job_id, False)
    assert leases(store)[0]["expires_at"] == store.now + LEASE
    store.run(keep_result, RunResult(token, '"so far"'))
    stop(store, claimed.run.job_id)
    assert store.run(report, Report(token, progress=Progress(percent=60))).cancel
    assert leases(store)[0]["expires_at"] == store.now + GRACE
    job = store.job(claimed.run.job_id)
    assert (job["progress_percent"], job["result_summary"]) == (60, '"so far"')


def test_recovery_leaves_live_leases_alone_and_gives_each_a_whole_lease(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker)
    inside = put(store, "semantica.noop").job_id
    store.claim()
    store.now += 10 * LEASE
    assert list(store.run(recover, frozenset())) == [inside]
    assert states(store, claimed.run.job_id) == ["RUNNING"]
    assert leases(store)[0]["expires_at"] == store.now + LEASE
    assert end_external(store, worker, claimed.run.run_id).state == "DONE"


def test_recovery_does_not_extend_a_timeout_or_a_grace_period(store: Store) -> None:
    worker = registered(store)
    timed = begin_external(store, worker, timeout_ms=LEASE)
    asked = begin_external(store, worker)
    stop(store, asked.run.job_id)
    beat(store, worker, asked.run.run_id)
    store.now += 5 * LEASE
    store.run(recover, frozenset())
    tick(store)
    assert states(store, timed.run.job_id, asked.run.job_id) == ["FAILED", "CANCELLED"]


@pytest.mark.parametrize("step", [3_600_000, -3_600_000])
def test_leases_move_with_the_clock_and_deadlines_do_not(store: Store, step: int) -> None:
    read(store)
    worker = registered(store)
    begin_external(store, worker, timeout_ms=5000)
    begin_external(store, worker, deadline=NOW + 1800_000)
    read(store, step)
    plain, limited = leases(store)
    assert (plain["expires_at"], plain["ends_at"]) == (NOW + LEASE + step, NOW + 5000 + step)
    assert limited["expires_at"] == min(NOW + LEASE + step, NOW + 1800_000)
    assert worker_row(store, worker)["last_heartbeat"] == NOW + step


def test_events_name_the_worker(store: Store) -> None:
    worker = registered(store)
    claimed = begin_external(store, worker)
    end_external(store, worker, claimed.run.run_id)
    assert event_types(store, claimed.run.job_id) == ["job.queued", "job.started", "job.done"]
    told = [event["event_type"] for event in store.events() if event["job_id"] is None]
    assert told == ["worker.registered"]
