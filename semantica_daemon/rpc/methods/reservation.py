"""The `reservation` family: acquire, release and look up reservations."""

from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.reservations import ReservationCalls
from semantica_daemon.rpc.binding import Binding, Call, ConnectionCall, Write
from semantica_daemon.rpc.connection import Connection
from semantica_daemon.store import reads
from semantica_daemon.store.writes.reservations import release
from semantica_daemon.wire.reservation import Acquired, AcquireParams, GetReservationParams, ReservationFound


def bindings(calls: ReservationCalls, readers: Readers) -> dict[str, Binding]:
    async def acquire(connection: Connection, params: AcquireParams) -> Acquired:
        return await calls.acquire(params, connection.transport.client_is_gone)

    async def get(params: GetReservationParams) -> ReservationFound:
        return ReservationFound(await readers.query(reads.reservation, params.reservation_id))

    return {
        "reservation.acquire": ConnectionCall(acquire, writes=True),
        "reservation.release": Write(release),
        "reservation.get": Call(get),
    }
