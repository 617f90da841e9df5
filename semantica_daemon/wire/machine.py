"""The `machine` family: whether the machine is idle and on mains, and by which source."""

from typing import Annotated, Literal

from msgspec import Struct

from semantica_daemon.wire.types import Label, Params, about

Kind = Literal["idle", "power"]


class SourceView(Struct, frozen=True):
    """One source and its answer."""

    kind: Annotated[Kind, about('"idle" or "power"')]
    source: Annotated[str, about("name of the source, such as mutter, logind, tty, load, editors, psutil, config")]
    answer: Annotated[bool | None, about("idle, or on mains; null: it does not know")]
    idle_for_ms: Annotated[int | None, about("time since the last input")]
    detail: Annotated[str, about("how it knows, or why it does not")]


class MachineView(Struct, frozen=True):
    """What the daemon knows about the machine. null: no source knows, which counts as no."""

    idle: Annotated[bool | None, about("no input for idle_ms")]
    idle_for_ms: Annotated[int | None, about("time since the last input")]
    idle_ms: Annotated[int, about("how long without input counts as idle")]
    idle_source: Annotated[str | None, about("source of the answer")]
    charging: Annotated[bool | None, about("on mains, or without a battery")]
    power_source: Annotated[str | None, about("source of the answer")]
    sources: Annotated[list[SourceView], about("every source, in the order in which they are asked")]
    watching: Annotated[list[Kind], about("what the daemon watches because a job waits for it")]


class ActivityParams(Params, frozen=True):
    source: Annotated[Label, about("name of the editor or plugin whose user is typing")]


class ActivityAck(Struct, frozen=True):
    idle: Annotated[bool, about("false, unless the configuration has always")]
    idle_ms: Annotated[int, about("how long without input counts as idle: call again within it")]
