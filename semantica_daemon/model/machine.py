"""Idle and power of the machine, as far as jobs wait for them; `engine/machine` measures them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from semantica_daemon.wire.machine import Kind

Need = tuple[int, int]  # (wait_for_idle, require_charging), as the columns say it


class MachineRules(Struct, frozen=True, forbid_unknown_fields=True):
    """The section `[machine]` of the configuration."""

    idle: Literal["auto", "always", "never"] = "auto"
    power: Literal["auto", "mains", "battery"] = "auto"
    idle_ms: Annotated[int, Meta(ge=1, le=86_400_000)] = 120_000


class Facts(Struct, frozen=True):
    """An unknown fact counts as false, so the job keeps waiting."""

    idle: bool = False
    charging: bool = False

    def meet(self, idle: int | bool, charging: int | bool) -> bool:
        return (self.idle or not idle) and (self.charging or not charging)

    @property
    def met(self) -> list[Need]:
        """The needs that are met now; a job without needs is always among them."""
        return [(idle, charging) for idle in (0, 1) for charging in (0, 1) if self.meet(idle, charging)]


class Idle(Struct, frozen=True):
    """Whether the machine is idle, and by which source. None: no source knows."""

    idle: bool | None = None
    idle_for_ms: int | None = None
    source: str | None = None
    detail: str = ""


class Power(Struct, frozen=True):
    """`charging`: on mains, or without a battery. None: unknown, and `detail` is the reason."""

    source: str = ""
    charging: bool | None = None
    detail: str = ""


class MachineStatus(Struct, frozen=True):
    """What the machine reports, as far as a job needs it."""

    idle_ms: int = 0
    idle: Idle = Idle()
    power: Power = Power()


class CurrentFacts(Struct):
    """The newest facts: `engine/machine` replaces them, each transaction reads them when it begins."""

    facts: Facts = Facts()


class Needs(Struct, frozen=True):
    """The earliest instant at which a job needs idle or power; None: no job does."""

    idle_at: int | None = None
    power_at: int | None = None

    def only(self, kinds: set[Kind]) -> "Needs":
        return Needs(self.idle_at if "idle" in kinds else None, self.power_at if "power" in kinds else None)

    def now(self, now: int) -> set[Kind]:
        at: dict[Kind, int | None] = {"idle": self.idle_at, "power": self.power_at}
        return {kind for kind, since in at.items() if since is not None and since <= now}

    def next(self, now: int) -> int | None:
        """The earliest instant after `now`."""
        return min((at for at in (self.idle_at, self.power_at) if at is not None and at > now), default=None)
