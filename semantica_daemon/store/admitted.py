"""A job as it comes to the store: its spec, checked by `engine/intake`, and what it was made from."""

from collections.abc import Callable

from msgspec import Struct

from semantica_daemon.wire.job import JobSpec


class Origin(Struct, frozen=True, gc=False):
    """What a job was made from. `awaits_turn`: an earlier job of the schedule has to end first."""

    template_id: str | None = None
    schedule_id: str | None = None
    awaits_turn: bool = False


NOTHING = Origin()


class Admitted(Struct, frozen=True, gc=False):
    """A spec that was checked against the handlers, with its payload and environment as they are stored,
    and what of the environment is only remembered. One that names a template is looked at when that has filled it in
    (`writes/templates`)."""

    spec: JobSpec
    mode: str
    payload: str
    spec_hash: str | None
    env: str | None = None
    secrets: dict[str, str] | None = None
    warnings: tuple[str, ...] = ()
    origin: Origin = NOTHING


# How the store has a spec checked that it makes itself, of a template.
Admit = Callable[[JobSpec], Admitted]
