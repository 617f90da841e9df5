"""The `reservation` family: while a reservation is ACTIVE the daemon starts no job."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from semantica_daemon.wire.types import Label, Params, Wait, about

ReservationId = Annotated[str, Meta(min_length=1, max_length=64)]
Ttl = Annotated[int, Meta(ge=1, le=86_400_000)]
TEN_MINUTES_MS = 600_000


class AcquireParams(Params, frozen=True):
    """At most one reservation is ACTIVE. Jobs that run go on, and the order of the waiting ones stays as it is."""

    reserved_by: Annotated[Label, about("who holds it, as others are shown it")]
    ttl_ms: Annotated[Ttl, about("it expires after so long")] = TEN_MINUTES_MS
    wait_ms: Annotated[Wait, about("wait so long while another one is ACTIVE; first come, first served")] = 0
    reservation_id: Annotated[
        ReservationId | None, about("the ACTIVE reservation of this holder: it expires ttl_ms from now")
    ] = None


class Acquired(Struct, frozen=True):
    reservation_id: Annotated[str, about("id of the reservation")]
    expires_at: Annotated[int, about("when it expires, epoch ms")]


class ReleaseParams(Params, frozen=True):
    reservation_id: Annotated[ReservationId, about("id from reservation.acquire")]
    reserved_by: Annotated[Label | None, about("refused unless this is the holder")] = None


class GetReservationParams(Params, frozen=True):
    reservation_id: Annotated[ReservationId | None, about("this reservation; without it, the ACTIVE one")] = None


class ReservationView(Struct, frozen=True):
    reservation_id: Annotated[str, about("id of the reservation")]
    reserved_by: Annotated[str, about("who holds it, or has held it")]
    status: Annotated[Literal["ACTIVE", "RELEASED", "EXPIRED"], about("ACTIVE, or how it has ended")]
    reserved_at: Annotated[int, about("when it was acquired, epoch ms")]
    expires_at: Annotated[int, about("when it expires, or would have expired, epoch ms")]
    job_id: Annotated[str | None, about("the job that job.execute runs under it; null for a client's own")]


class ReservationFound(Struct, frozen=True):
    reservation: Annotated[ReservationView | None, about("the reservation; null when none is ACTIVE")]
