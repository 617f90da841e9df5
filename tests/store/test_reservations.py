"""Reservations: at most one is ACTIVE, nothing is dispatched meanwhile, and the order stays as it is (seed 004)."""

import sqlite3
from typing import Any

import msgspec
import pytest

from semantica_daemon.errors import Refusal, ReservationNotFound, ReservationOver, Reserved
from semantica_daemon.store.database import Command
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.clock import Reading, set_clock
from semantica_daemon.store.writes.reservations import MOST_KEPT, acquire, recover_reservation, release
from semantica_daemon.wire.reservation import Acquired, AcquireParams, ReleaseParams
from tests.builders import NOW, Store
from tests.store.steps import begin, claimed_ids, end, put, states, tick

TEN_MINUTES = 600_000


def reserve(store: Store, by: str = "ci", **more: Any) -> Acquired:
    made: Acquired = store.run(acquire, AcquireParams(by, **more))
    return made


def statuses(store: Store) -> list[str]:
    return [row["status"] for row in store.rows("SELECT status FROM direct_reservations ORDER BY rowid")]


def told(store: Store) -> list[str]:
    return [event["event_type"] for event in store.events() if event["event_type"].startswith("reservation.")]


def again(store: Store, ms: int = 0) -> Store:
    """The daemon died; another one opens its database."""
    store.connection.close()
    opened = Store(store.path)
    opened.now = store.now + ms
    opened.run(recover_reservation, None)
    return opened


def test_a_reservation_has_the_columns_of_the_seed(store: Store) -> None:
    made = reserve(store, "deploy")
    (row,) = store.rows("SELECT * FROM direct_reservations")
    told_of = {"reserved_at": NOW, "reserved_by": "deploy", "status": "ACTIVE", "expires_at": NOW + TEN_MINUTES}
    assert row == {"reservation_id": made.reservation_id, "job_id": None, **told_of}
    assert made.expires_at == NOW + TEN_MINUTES


def test_the_stream_tells_of_it_without_a_job(store: Store) -> None:
    made = reserve(store)
    store.run(release, ReleaseParams(made.reservation_id))
    events = store.events()
    assert [(event["event_type"], event["job_id"]) for event in events] == [
        ("reservation.acquired", None),
        ("reservation.released", None),
    ]
    payload = msgspec.json.decode(events[0]["payload"])
    assert payload == {
        "reservation_id": made.reservation_id, "reserved_by": "ci", "reserved_at": NOW,
        "expires_at": made.expires_at, "job_id": None,
    }  # fmt: skip


def test_a_second_one_is_refused_and_told_who_holds_it_and_until_when(store: Store) -> None:
    made = reserve(store, "deploy")
    with pytest.raises(Reserved, match="reserved by deploy") as refused:
        reserve(store, "other")
    facts = refused.value.details
    assert (facts["reserved_by"], facts["expires_at"]) == ("deploy", made.expires_at)
    assert (refused.value.number, refused.value.code, refused.value.retryable) == (4002, "E_RESERVED", True)
    assert statuses(store) == ["ACTIVE"]


def test_two_in_one_transaction_get_one(store: Store) -> None:
    commands = [Command(acquire, AcquireParams(by)) for by in ("a", "b")]
    first, second = store.database.transact(commands, NOW, None).results
    assert isinstance(first, Acquired)
    assert isinstance(second, Reserved)


def test_the_schema_itself_refuses_two_active_ones(store: Store) -> None:
    reserve(store)
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        store.connection.execute(
            "INSERT INTO direct_reservations (reservation_id, reserved_at, reserved_by, expires_at) VALUES (1, 1, 1, 1)"
        )


def test_nothing_is_dispatched_and_the_order_is_untouched(store: Store) -> None:
    ids = [put(store, priority=priority, queue="one").job_id for priority in (0, 9, 0)]
    before = store.rows("SELECT id, priority, position, queued_at FROM jobs ORDER BY id")
    made = reserve(store)
    assert claimed_ids(store) == []
    store.run(release, ReleaseParams(made.reservation_id), claiming=True)
    assert store.committed is not None
    assert [claimed.run.job_id for claimed in store.committed.claims] == [ids[1]], "in the commit of the release"
    assert store.rows("SELECT id, priority, position, queued_at FROM jobs ORDER BY id") == before


def test_what_runs_goes_on_and_its_slot_stays_free(store: Store) -> None:
    running = begin(store, queue="one")
    waiting = put(store, queue="one").job_id
    made = reserve(store)
    assert end(store, running) == "DONE"
    assert claimed_ids(store) == []
    store.run(release, ReleaseParams(made.reservation_id))
    assert claimed_ids(store) == [waiting]


def test_jobs_that_become_due_wait_in_the_queue(store: Store) -> None:
    job_id = put(store, schedule={"type": "AFTER", "delay_ms": 10}).job_id
    made = reserve(store)
    tick(store, 10)
    assert states(store, job_id) == ["QUEUED"]
    assert claimed_ids(store) == []
    store.run(release, ReleaseParams(made.reservation_id))
    assert claimed_ids(store) == [job_id]


def test_it_expires_by_the_scheduler_which_knows_when(store: Store) -> None:
    reserve(store, ttl_ms=50)
    assert store.committed is not None
    assert store.committed.due == NOW + 50
    assert tick(store, 49) == NOW + 50
    assert statuses(store) == ["ACTIVE"]
    assert tick(store, 1) is None
    assert (statuses(store), told(store)[-1]) == (["EXPIRED"], "reservation.expired")
    assert store.events()[-1]["level"] == "warn"


def test_a_claim_after_the_expiry_does_not_wait_for_the_scheduler(store: Store) -> None:
    job_id = put(store).job_id
    reserve(store, ttl_ms=50)
    store.now += 50
    assert claimed_ids(store) == [job_id]
    assert statuses(store) == ["EXPIRED"]


def test_an_expired_one_is_no_obstacle_for_the_next(store: Store) -> None:
    reserve(store, ttl_ms=50)
    store.now += 50
    reserve(store, "next")
    assert statuses(store) == ["EXPIRED", "ACTIVE"]


def test_its_holder_extends_it(store: Store) -> None:
    made = reserve(store, ttl_ms=50)
    store.now += 40
    extended = reserve(store, ttl_ms=70, reservation_id=made.reservation_id)
    assert extended == Acquired(made.reservation_id, NOW + 110)
    assert tick(store, 60) == NOW + 110
    assert (statuses(store), told(store)) == (["ACTIVE"], ["reservation.acquired"])


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (lambda made: ReleaseParams("unknown"), ReservationNotFound),
        (lambda made: ReleaseParams(made.reservation_id, "somebody else"), Reserved),
        (lambda made: AcquireParams("ci", reservation_id="unknown"), ReservationNotFound),
        (lambda made: AcquireParams("somebody else", reservation_id=made.reservation_id), Reserved),
    ],
)
def test_what_is_not_the_caller_s_is_refused_and_nothing_changes(
    store: Store, request_: Any, refusal: type[Refusal]
) -> None:
    made = reserve(store)
    before = store.rows("SELECT * FROM direct_reservations")
    request = request_(made)
    with pytest.raises(refusal) as refused:
        store.run(release if isinstance(request, ReleaseParams) else acquire, request)
    assert refused.value.hint
    assert store.rows("SELECT * FROM direct_reservations") == before
    assert told(store) == ["reservation.acquired"]


@pytest.mark.parametrize("ms", [0, 50])
def test_one_that_is_over_is_neither_released_nor_extended(store: Store, ms: int) -> None:
    made = reserve(store, ttl_ms=50)
    store.now += ms
    if not ms:
        store.run(release, ReleaseParams(made.reservation_id))
    status = "EXPIRED" if ms else "RELEASED"
    with pytest.raises(ReservationOver, match=status):
        store.run(release, ReleaseParams(made.reservation_id))
    with pytest.raises(ReservationOver, match=status):
        reserve(store, reservation_id=made.reservation_id)


def test_a_clock_that_is_set_moves_its_end(store: Store) -> None:
    store.run(set_clock, Reading("boot", NOW))
    reserve(store, ttl_ms=50)
    store.now += 3_600_000
    store.run(set_clock, Reading("boot", NOW + 3_600_000))
    assert statuses(store) == ["ACTIVE"]
    assert tick(store) == store.now + 50
    tick(store, 50)
    assert statuses(store) == ["EXPIRED"]


def test_a_transaction_that_is_lost_leaves_the_flag_as_the_table_has_it(store: Store) -> None:
    put(store)
    made = reserve(store)

    def release_and_fail(tx: Tx, request: None) -> None:
        release(tx, ReleaseParams(made.reservation_id))
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        store.run(release_and_fail, None)
    assert store.database.context.reservations.active is not None
    assert claimed_ids(store) == []

    def acquire_and_fail(tx: Tx, request: None) -> None:
        acquire(tx, AcquireParams("b"))
        raise ValueError

    store.run(release, ReleaseParams(made.reservation_id))
    with pytest.raises(ValueError):  # noqa: PT011
        store.run(acquire_and_fail, None)
    assert store.database.context.reservations.active is None
    assert len(claimed_ids(store)) == 1


def test_after_a_restart_a_client_s_own_holds_until_it_expires(forged: Store) -> None:
    job_id = put(forged).job_id
    made = reserve(forged, ttl_ms=50)
    opened = again(forged, 49)
    assert claimed_ids(opened) == []
    assert (statuses(opened), told(opened)[-1]) == (["ACTIVE"], "reservation.kept")
    assert msgspec.json.decode(opened.events()[-1]["payload"])["reservation_id"] == made.reservation_id
    tick(opened, 1)
    assert claimed_ids(opened) == [job_id]
    opened.close()


def test_after_a_restart_an_expired_one_is_expired(forged: Store) -> None:
    job_id = put(forged).job_id
    reserve(forged, ttl_ms=50)
    opened = again(forged, 50)
    assert (statuses(opened), told(opened)[-1]) == (["EXPIRED"], "reservation.expired")
    assert claimed_ids(opened) == [job_id]
    opened.close()


def test_a_restart_without_a_reservation_tells_nothing(forged: Store) -> None:
    opened = again(forged)
    assert opened.events() == []
    opened.close()


def test_the_history_of_reservations_is_bounded(store: Store) -> None:
    commands = []
    for number in range(MOST_KEPT + 5):
        commands.append(Command(acquire, AcquireParams(str(number), ttl_ms=1)))
    for command in commands:
        store.now += 1
        store.database.transact([command], store.now, None)
    rows = store.rows("SELECT reserved_by FROM direct_reservations ORDER BY rowid")
    assert len(rows) == MOST_KEPT
    assert rows[-1]["reserved_by"] == str(MOST_KEPT + 4)
