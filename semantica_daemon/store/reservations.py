"""The ACTIVE reservation: in memory, beside the table direct_reservations, so that a claim tests one attribute.

`writes/reservations` changes both. While `tx.reservations.active` is not None no job is dispatched, to a slot or to a
worker, except the job that job.execute runs under the reservation.
"""

import sqlite3

from semantica_daemon.model.reservation import Reservation

ACTIVE = """
SELECT reservation_id, reserved_by, reserved_at, expires_at, job_id
FROM direct_reservations INDEXED BY idx_direct_reservations_active
WHERE status = 'ACTIVE'
"""


class Reservations:
    def __init__(self) -> None:
        self.active: Reservation | None = None

    def load(self, connection: sqlite3.Connection) -> None:
        row = connection.execute(ACTIVE).fetchone()
        self.active = None if row is None else Reservation(*row)
