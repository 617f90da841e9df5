"""The `reservation` family: acquire, release and look up reservations."""

from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.reservations import ReservationCalls
from semantica_daemon.rpc.binding import Binding, Call, Write
from semantica_daemon.store import reads
from semantica_daemon.store.writes.reservations import release
from semantica_daemon.wire.reservation import GetReservationParams, ReservationFound


def bindings(calls: ReservationCalls, readers: Readers) -> dict[str, Binding]:
    async def get(params: GetReservationParams) -> ReservationFound:
        return ReservationFound(await readers.query(reads.reservation, params.reservation_id))

    return {
        "reservation.acquire": Call(calls.acquire, writes=True),
        "reservation.release": Write(release),
        "reservation.get": Call(get),
    }
