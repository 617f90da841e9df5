"""A machine of which only the test tells: `machine.activity` says who types, `mains` whether it is plugged in."""

from collections import Counter

from semantica_daemon.engine.probes import Answer, Places, Sources
from semantica_daemon.model.machine import Power
from tests.harness import Harness

IDLE_MS = 20_000
IDLE = {"type": "CONDITION", "wait_for_idle": True}
POWER = {"type": "CONDITION", "require_charging": True}
BOTH = {**IDLE, "require_charging": True}


class FakeSources(Sources):
    """The real sources that need no bus, pointed at folders that are not there and at a screen, of which they can tell
    nothing; so idleness is what editors say, and goes by the manual clock. `asked` and `let_go` count."""

    def __init__(self, harness: Harness, mains: bool | None) -> None:
        nowhere = harness.paths.data / "nowhere"
        super().__init__(harness.clock, lambda: 0, {"DISPLAY": ":9"}, Places(nowhere, nowhere, nowhere), "linux")
        self._chain = {"tty": self._tty, "load": self._load}
        self.mains = mains
        self.asked: Counter[str] = Counter()
        self.let_go = 0

    async def close(self) -> None:
        self.let_go += 1
        await super().close()

    async def idle(self, query_all: bool = False) -> list[Answer]:
        self.asked["idle"] += 1
        return await super().idle(query_all)

    async def power(self) -> Power:
        self.asked["power"] += 1
        return Power("told", self.mains, "on mains" if self.mains else "on battery, 40 %")


def use_fake_sources(harness: Harness, mains: bool | None = False) -> FakeSources:
    """Takes the place of the sources; before anything waits for them, so that the others are never asked."""
    sources = FakeSources(harness, mains)
    harness.daemon.machine._sources = sources
    return sources


async def type_something(harness: Harness, source: str = "nvim") -> None:
    await harness.call("machine.activity", source=source)


class ProbeCounts:
    """How often it was asked in a span of time."""

    def __init__(self, harness: Harness, machine: FakeSources) -> None:
        self._harness = harness
        self._machine = machine

    async def during(self, ms: int) -> tuple[int, int]:
        self._machine.asked.clear()
        await self._harness.advance(ms)
        return self._machine.asked["idle"], self._machine.asked["power"]
