"""The reservation that is ACTIVE, and the error for callers that want another one."""

from msgspec import Struct

from semantica_daemon.errors import Reserved


class Reservation(Struct, frozen=True):
    """`job_id`: the job that job.execute runs under it; None for a client's own."""

    reservation_id: str
    reserved_by: str
    reserved_at: int
    expires_at: int
    job_id: str | None = None


def taken(found: Reservation | None) -> Reserved:
    """The error for a caller that cannot have a reservation now; None: others wait for it and come first."""
    if found is None:
        return Reserved("others wait for a reservation and come first", "wait for it with wait_ms")
    facts = {name: getattr(found, name) for name in found.__struct_fields__}
    problem = f"reserved by {found.reserved_by} until {found.expires_at} (epoch ms)"
    return Reserved(problem, "wait for its end with wait_ms, or try again later", **facts)
