"""reservation.acquire and reservation.release, and the end of a reservation by its timer, its job or a restart.

`direct` has job.execute, which runs a job under a reservation of its own.
"""

import msgspec

from semantica_daemon.errors import ReservationNotFound, ReservationOver
from semantica_daemon.model.reservation import Reservation, taken
from semantica_daemon.store.tx import Tx
from semantica_daemon.wire.reservation import Acquired, AcquireParams, ReleaseParams, ReservationView

MOST_KEPT = 1000  # reservations that have ended

INSERT = """
INSERT INTO direct_reservations (reservation_id, reserved_by, reserved_at, expires_at, job_id)
VALUES (?, ?, ?, ?, ?)
"""
FORGET = """
DELETE FROM direct_reservations
WHERE rowid <= (SELECT max(rowid) FROM direct_reservations) - ? AND status <> 'ACTIVE'
"""
EXTEND = "UPDATE direct_reservations SET expires_at = ? WHERE reservation_id = ?"
END = "UPDATE direct_reservations SET status = ? WHERE reservation_id = ? AND status = 'ACTIVE'"
GET = """
SELECT reservation_id, reserved_by, status, reserved_at, expires_at, job_id
FROM direct_reservations
WHERE reservation_id = ?
"""
LIVE_JOB = "SELECT 1 FROM jobs WHERE id = ? AND finished_at IS NULL AND held_at IS NULL"


def acquire(tx: Tx, params: AcquireParams) -> Acquired:
    """Raises Reserved while another reservation is ACTIVE; `engine/reservations` waits for its end."""
    if params.reservation_id is not None:
        return _extend(tx, params)
    end_if_over(tx)
    if tx.reservations.active is not None:
        raise taken(tx.reservations.active)
    made = insert(tx, tx.ids.job(), params.reserved_by, params.ttl_ms)
    return Acquired(made.reservation_id, made.expires_at)


def insert(tx: Tx, reservation_id: str, reserved_by: str, ttl_ms: int, job_id: str | None = None) -> Reservation:
    made = Reservation(reservation_id, reserved_by, tx.now, tx.now + ttl_ms, job_id)
    tx.execute(INSERT, (reservation_id, reserved_by, made.reserved_at, made.expires_at, job_id))
    tx.execute(FORGET, (MOST_KEPT,))
    tx.reservations.active = made
    tx.wake_at(made.expires_at)
    tx.announce("reservation.acquired", f"reserved by {reserved_by}: no other job starts", made)
    return made


def _extend(tx: Tx, params: AcquireParams) -> Acquired:
    found = _active(tx, params.reservation_id or "", params.reserved_by)
    extended = msgspec.structs.replace(found, expires_at=tx.now + params.ttl_ms)
    tx.execute(EXTEND, (extended.expires_at, found.reservation_id))
    tx.reservations.active = extended
    tx.wake_at(extended.expires_at)
    return Acquired(extended.reservation_id, extended.expires_at)


def release(tx: Tx, params: ReleaseParams) -> ReservationView:
    found = _active(tx, params.reservation_id, params.reserved_by)
    end(tx, found, "RELEASED", f"released by {found.reserved_by}")
    return ReservationView(*tx.execute(GET, (found.reservation_id,)).fetchone())


def _active(tx: Tx, reservation_id: str, reserved_by: str | None) -> Reservation:
    """The ACTIVE reservation, if it has this id and holder and is no job's."""
    row = tx.execute(GET, (reservation_id,)).fetchone()
    if row is None:
        hint = "reservation.get shows the one that is ACTIVE"
        raise ReservationNotFound(f"no reservation {reservation_id}", hint, reservation_id=reservation_id)
    found, active = ReservationView(*row), tx.reservations.active
    if active is None or active.reservation_id != reservation_id or active.expires_at <= tx.now:
        problem = f"reservation {reservation_id} is {'EXPIRED' if found.status == 'ACTIVE' else found.status}"
        raise ReservationOver(problem, "nothing is left to release", reservation_id=reservation_id)
    if active.job_id is not None:
        refused = taken(active)
        refused.hint = "it ends with its job, which job.cancel ends"
        raise refused
    if reserved_by is not None and reserved_by != active.reserved_by:
        refused = taken(active)
        refused.hint = "only its holder releases or extends it; others wait for its end"
        raise refused
    return active


def settle(tx: Tx) -> None:
    """Ends the ACTIVE reservation if its time is over, or its job has ended or is held."""
    end_if_over(tx)
    active = tx.reservations.active
    if active is None or active.job_id is None:
        return
    if tx.execute(LIVE_JOB, (active.job_id,)).fetchone() is None:
        end(tx, active, "RELEASED", f"released: job {active.job_id} has ended, or is held")


def end_if_over(tx: Tx) -> None:
    active = tx.reservations.active
    if active is not None and active.expires_at <= tx.now:
        end(tx, active, "EXPIRED", f"the reservation of {active.reserved_by} has expired", "warn")


def end(tx: Tx, reservation: Reservation, status: str, message: str, level: str = "info") -> None:
    tx.execute(END, (status, reservation.reservation_id))
    tx.reservations.active = None
    tx.announce(f"reservation.{status.lower()}", message, reservation, level=level)


def release_direct(tx: Tx, reason: str) -> None:
    """Releases the reservation of a job.execute, whose runner is gone: the daemon stops, or has died. One whose time is
    over becomes EXPIRED first, whoever notices it: how it ended does not depend on when the daemon looked."""
    end_if_over(tx)
    active = tx.reservations.active
    if active is not None and active.job_id is not None:
        end(tx, active, "RELEASED", reason)


def recover_reservation(tx: Tx, request: None) -> None:
    """At start: an expired reservation becomes EXPIRED, that of a job.execute RELEASED; a client's own stays."""
    release_direct(tx, "the daemon was restarted")
    active = tx.reservations.active
    if active is not None:
        tx.announce("reservation.kept", f"still reserved by {active.reserved_by}: no other job starts", active)
