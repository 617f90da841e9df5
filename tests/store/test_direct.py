"""job.execute: exactly that job starts, ahead of everything, under a reservation that ends with it (seed 004)."""

from typing import Any

import pytest

from semantica_daemon.errors import InvalidParams, Reserved
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store.run_transition import Claim
from semantica_daemon.store.writes.direct import execute
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.lifecycle import stopping
from semantica_daemon.store.writes.queues import configure, pause
from semantica_daemon.store.writes.recover import recover
from semantica_daemon.store.writes.reservations import acquire, recover_reservation, release
from semantica_daemon.store.writes.templates import put as put_template
from semantica_daemon.wire.queue import ConfigureParams, PauseParams, Rate
from semantica_daemon.wire.reservation import AcquireParams, ReleaseParams
from semantica_daemon.wire.run import Error
from semantica_daemon.wire.template import PutTemplateParams
from tests.builders import NOW, Store, admitted
from tests.store.steps import BAD, COMMAND, HOPELESS, begin, claimed_ids, claims, end, put, states, stop, tick

UNSTARTED = Outcome(error=Error("E_SPAWN", "infra", "no process"), unstarted=True)


def run_now(store: Store, **spec: Any) -> Claim:
    """Executes the job; its claim, made in the same commit."""
    ack = store.run(execute, admitted(**spec), claiming=True)
    assert store.committed is not None
    (claimed,) = store.committed.claims
    assert claimed.run.job_id == ack.job_id
    return claimed


def reservation(store: Store) -> dict[str, Any]:
    return store.rows("SELECT * FROM direct_reservations ORDER BY rowid DESC")[0]


def statuses(store: Store) -> list[str]:
    return [row["status"] for row in store.rows("SELECT status FROM direct_reservations ORDER BY rowid")]


def test_it_starts_in_the_commit_that_stores_it_ahead_of_what_waits(store: Store) -> None:
    first = put(store, priority=100).job_id
    claimed = run_now(store)
    row = reservation(store)
    assert (row["status"], row["job_id"], row["expires_at"]) == ("ACTIVE", claimed.run.job_id, NOW + 600_000)
    assert states(store, first, claimed.run.job_id) == ["QUEUED", "RUNNING"]
    assert claimed_ids(store) == []
    end(store, claimed)
    assert statuses(store) == ["RELEASED"]
    assert claimed_ids(store) == [first]


@pytest.mark.parametrize("queue", ["default", "one", "none"])
def test_it_waits_for_no_slot_and_no_pause(store: Store, queue: str) -> None:
    running = [begin(store), begin(store)]
    store.run(pause, PauseParams())
    claimed = run_now(store, queue=queue)
    assert states(store, *(one.run.job_id for one in running)) == ["RUNNING"] * 2, "what runs goes on"
    end(store, claimed)
    assert statuses(store) == ["RELEASED"]


def test_a_full_queue_takes_it_all_the_same(store: Store) -> None:
    put(store, queue="small")
    put(store, queue="small")
    run_now(store, queue="small")


def test_its_end_lets_the_queue_go_on_in_the_same_commit(store: Store) -> None:
    claimed = run_now(store)
    waiting = put(store).job_id
    store.run(finish, Finish(claimed.run, Outcome(), None, claimed.job), claiming=True)
    assert store.committed is not None
    assert [one.run.job_id for one in store.committed.claims] == [waiting]
    told = [event["event_type"] for event in store.events()]
    assert told.index("job.done") < told.index("reservation.released")


@pytest.mark.parametrize("outcome", [HOPELESS, Outcome(error=Error("E_SPAWN", "permanent", "no such command"))])
def test_a_failure_releases_it(store: Store, outcome: Outcome) -> None:
    claimed = run_now(store)
    assert end(store, claimed, outcome) == "FAILED"
    assert statuses(store) == ["RELEASED"]


def test_a_cancel_releases_it_when_the_run_is_gone(store: Store) -> None:
    claimed = run_now(store)
    stop(store, claimed.run.job_id)
    assert statuses(store) == ["ACTIVE"]
    assert end(store, claimed) == "CANCELLED"
    assert statuses(store) == ["RELEASED"]


def test_a_retry_is_waited_for_under_the_reservation(store: Store) -> None:
    claimed = run_now(store, max_attempts=2, backoff_base_ms=100)
    put(store, priority=100)
    assert end(store, claimed, BAD) == "SCHEDULED"
    assert (statuses(store), claimed_ids(store)) == (["ACTIVE"], [])
    tick(store, 120)
    (again,) = claims(store)
    assert (again.run.job_id, again.run.attempt) == (claimed.run.job_id, 2)
    end(store, again)
    assert statuses(store) == ["RELEASED"]


def test_a_run_that_could_not_be_started_is_tried_again_at_once(store: Store) -> None:
    claimed = run_now(store, **COMMAND)
    put(store, priority=100)
    assert end(store, claimed, UNSTARTED) == "QUEUED"
    assert claimed_ids(store) == [claimed.run.job_id]


def test_when_the_reservation_expires_the_job_goes_on_and_so_does_the_queue(store: Store) -> None:
    claimed = run_now(store)
    waiting = put(store).job_id
    tick(store, 600_000)
    assert statuses(store) == ["EXPIRED"]
    assert claimed_ids(store) == [waiting]
    assert end(store, claimed) == "DONE"
    assert statuses(store) == ["EXPIRED"]


def test_a_deadline_that_has_passed_releases_it_at_once(store: Store) -> None:
    waiting = put(store).job_id
    ack = store.run(execute, admitted(deadline=NOW), claiming=True)
    assert states(store, ack.job_id) == ["SKIPPED_DEADLINE"]
    assert statuses(store) == ["RELEASED"]
    assert states(store, waiting) == ["RUNNING"]


def test_while_another_holds_the_reservation_nothing_is_stored(store: Store) -> None:
    made = store.run(acquire, AcquireParams("deploy"))
    with pytest.raises(Reserved, match="reserved by deploy"):
        store.run(execute, admitted())
    assert store.rows("SELECT id FROM jobs") == []
    store.run(release, ReleaseParams(made.reservation_id))
    run_now(store)


def test_its_reservation_is_released_by_nobody_else(store: Store) -> None:
    run_now(store)
    row = reservation(store)
    with pytest.raises(Reserved) as refused:
        store.run(release, ReleaseParams(row["reservation_id"]))
    assert "job.cancel" in refused.value.hint
    assert statuses(store) == ["ACTIVE"]


def test_a_job_that_is_known_is_returned_and_reserves_nothing(store: Store) -> None:
    store.run(acquire, AcquireParams("deploy"))
    known = put(store, idempotency_key="k").job_id
    ack = store.run(execute, admitted(idempotency_key="k"))
    assert (ack.job_id, ack.existing) == (known, True)
    assert statuses(store) == ["ACTIVE"]


def test_a_late_generation_is_recorded_and_reserves_nothing(store: Store) -> None:
    put(store, subject_key="s", generation=5)
    ack = store.run(execute, admitted(subject_key="s", generation=4), claiming=True)
    assert ack.state == "SUPERSEDED"
    assert statuses(store) == []


def test_in_a_busy_lane_it_starts_when_the_older_run_is_gone(store: Store) -> None:
    older = begin(store, subject_key="s")
    other = put(store, priority=100).job_id
    ack = store.run(execute, admitted(subject_key="s"), claiming=True)
    assert (states(store, ack.job_id), claimed_ids(store)) == (["QUEUED"], [])
    end(store, older)
    (claimed,) = claims(store)
    assert claimed.run.job_id == ack.job_id
    end(store, claimed)
    assert claimed_ids(store) == [other]


def test_a_template_is_checked_when_it_is_filled_in(store: Store) -> None:
    spec = admitted(schedule={"type": "AFTER", "delay_ms": 5}).spec
    store.run(put_template, PutTemplateParams("later", spec))
    with pytest.raises(InvalidParams, match="starts at once"):
        store.run(execute, admitted(template_id="later"))
    assert (statuses(store), store.rows("SELECT id FROM jobs")) == ([], [])


@pytest.mark.parametrize("on_interrupt", ["fail", "requeue"])
def test_a_shutdown_releases_it(store: Store, on_interrupt: str) -> None:
    run_now(store, on_interrupt=on_interrupt)
    store.run(stopping, "enough")
    assert statuses(store) == ["RELEASED"]


@pytest.mark.parametrize("on_interrupt", ["fail", "requeue"])
def test_a_crash_releases_it_at_the_next_start(forged: Store, on_interrupt: str) -> None:
    waiting = put(forged).job_id
    claimed = run_now(forged, on_interrupt=on_interrupt)
    forged.connection.close()
    opened = Store(forged.path)
    opened.run(recover, frozenset())
    opened.run(recover_reservation, None)
    assert statuses(opened) == ["RELEASED"]
    assert opened.events()[-1]["event_type"] == "reservation.released"
    expected = [waiting] if on_interrupt == "fail" else [waiting, claimed.run.job_id]
    assert claimed_ids(opened) == expected, "in the order of the queue, as any other"
    opened.close()


def test_one_whose_time_is_over_is_expired_whichever_end_notices_it_first(forged: Store) -> None:
    run_now(forged)
    forged.now += 600_000
    forged.run(stopping, "enough")
    assert statuses(forged) == ["EXPIRED"], "at a shutdown"
    run_now(forged, on_interrupt="requeue")
    forged.connection.close()
    opened = Store(forged.path)
    opened.now = forged.now + 600_000
    opened.run(recover, frozenset())
    opened.run(recover_reservation, None)
    assert statuses(opened) == ["EXPIRED", "EXPIRED"], "at the start after a crash"
    opened.close()


def test_its_key_holds_it_back_until_the_other_run_is_gone(store: Store) -> None:
    older = begin(store, concurrency_key="repo")
    other = put(store, priority=100).job_id
    ack = store.run(execute, admitted(concurrency_key="repo"), claiming=True)
    assert states(store, ack.job_id) == ["QUEUED"]
    end(store, older)
    assert claimed_ids(store) == [ack.job_id]
    assert states(store, other) == ["QUEUED"]


def test_it_may_take_more_slots_than_there_are(store: Store) -> None:
    claimed = run_now(store, slots=9)
    waiting = put(store).job_id
    end(store, claimed)
    assert claimed_ids(store) == [waiting]


def test_the_rate_of_its_queue_does_not_hold_it_back(store: Store) -> None:
    store.run(configure, ConfigureParams("r", rate=Rate(1, 60_000)))
    end(store, begin(store, queue="r"))
    end(store, run_now(store, queue="r"))
    put(store, queue="r")
    assert claimed_ids(store) == []
