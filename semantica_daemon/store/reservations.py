"""The ACTIVE reservation: in memory, beside the table direct_reservations, so that a claim tests one attribute.

`writes/reservations` changes both. While `tx.reservations.active` is not None no job is dispatched, to a slot or to a
worker, except the job that job.execute runs under the reservation.
"""

import sqlite3

from msgspec import Struct

from semantica_daemon.errors import Reserved

ACTIVE = """
SELECT reservation_id, reserved_by, reserved_at, expires_at, job_id
FROM direct_reservations INDEXED BY idx_direct_reservations_active
WHERE status = 'ACTIVE'
"""


class Reservation(Struct, frozen=True):
    """`job_id`: the job that job.execute runs under it; None for a client's own."""

    reservation_id: str
    reserved_by: str
    reserved_at: int
    expires_at: int
    job_id: str | None = None


class Reservations:
    def __init__(self) -> None:
        self.active: Reservation | None = None

    def load(self, connection: sqlite3.Connection) -> None:
        row = connection.execute(ACTIVE).fetchone()
        self.active = None if row is None else Reservation(*row)


def taken(found: Reservation | None) -> Reserved:
    """The error for a caller that cannot have a reservation now; None: others wait for it and come first."""
    if found is None:
        return Reserved("others wait for a reservation and come first", "wait for it with wait_ms")
    facts = {name: getattr(found, name) for name in found.__struct_fields__}
    problem = f"reserved by {found.reserved_by} until {found.expires_at} (epoch ms)"
    return Reserved(problem, "wait for its end with wait_ms, or try again later", **facts)
