"""Whether the machine is idle and on mains: found out while some job waits for it, and only then.

`probes` has the sources; here it is decided when to ask them, what editors say is laid beside it, and what changes is
made known: what is lost to the jobs that need it, what is gained to the scheduler.
"""

from typing import Literal, NamedTuple

from msgspec import Struct

from semantica_daemon.clock import Clock
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.passes import Wake
from semantica_daemon.engine.power import Power
from semantica_daemon.engine.probes import Answer, Sources
from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.machine import CurrentFacts, Facts, Needs
from semantica_daemon.store import needs as store
from semantica_daemon.store.writes.lost import lost
from semantica_daemon.wire.machine import ActivityAck, Kind, MachineView, SourceView

LOOK_EVERY_MS = 5000  # while it is idle or on mains, and somebody would have to stop when it no longer is
LOOK_AGAIN_MS = 30_000  # when nobody can tell
SOONEST_MS = 1000
MOST_EDITORS = 100
OVERRIDE = "config"
EDITORS = "editors"


class Rules(Struct, frozen=True):
    """`[machine]`"""

    idle: Literal["auto", "always", "never"]
    power: Literal["auto", "mains", "battery"]
    idle_ms: int


class Idle(Struct, frozen=True):
    """None where nobody can tell."""

    idle: bool | None
    idle_for_ms: int | None
    source: str | None
    detail: str


class Signals(NamedTuple):
    """What the machine changes: the facts that claims go by, its own next step, and the scheduler's, which promotes
    the jobs that may start when the machine becomes idle or is plugged in."""

    current: CurrentFacts
    wake: Wake
    scheduler: Wake


class Machine:
    def __init__(
        self, rules: Rules, sources: Sources, readers: Readers, commands: CommandQueue, signals: Signals, clock: Clock
    ) -> None:
        self.rules = rules
        self.watching: set[Kind] = set()
        self._sources = sources
        self._clock = clock
        self._readers = readers
        self._commands = commands
        self._current = signals.current
        self._wake = signals.wake
        self._scheduler = signals.scheduler
        self._editors: dict[str, int] = {}
        self._looked = False  # what a daemon before us had queued may need what is not so any more
        self._always = Facts(rules.idle == "always", rules.power == "mains")
        self._asks: set[Kind] = set()
        if rules.idle == "auto":
            self._asks.add("idle")
        if rules.power == "auto":
            self._asks.add("power")
        self._current.facts = self._always

    @property
    def is_idle(self) -> bool | None:
        """None while nobody waits for it: it is not looked after then."""
        return self._current.facts.idle if self.rules.idle != "auto" or "idle" in self.watching else None

    def needed(self, needs: Needs) -> None:
        """Told with every pass of the scheduler; who is watched for already need not wake it."""
        now, needs = self._clock.now(), needs.only(self._asks)
        if needs.now(now) - self.watching:
            self._wake.by(now)
        elif (at := needs.next(now)) is not None:
            self._wake.by(at)

    async def step(self) -> int | None:
        needs: Needs = (await self._readers.ask(store.needs)).only(self._asks)
        now = self._clock.now()
        self.watching = needs.now(now)
        if not self.watching:
            await self._sources.close()
            await self._became(self._always)
            return needs.next(now)
        looks = [needs.next(now)]
        idle, charging = self._always.idle, self._always.charging
        if "power" in self.watching:
            charging = bool((await self.power()).charging)
            looks.append(now + LOOK_EVERY_MS)
        if "idle" in self.watching:  # last, so that no editor's word comes between it and what follows from it
            found = await self.idle()
            idle = bool(found.idle)
            looks.append(now + self._look_at(found))
        await self._became(Facts(idle, charging))
        return min(at for at in looks if at is not None)

    async def idle(self) -> Idle:
        """By the first source that can tell, and what editors say."""
        if self.rules.idle != "auto":
            return self._overridden()
        fresh = self._said_by_editors()
        if fresh is not None and fresh.idle_for_ms is not None and fresh.idle_for_ms < self.rules.idle_ms:
            return self._as_idle([fresh])
        answers = await self._sources.idle()
        return self._as_idle([*answers, *filter(None, [self._said_by_editors()])])

    async def power(self) -> Power:
        if self.rules.power != "auto":
            charging = self.rules.power == "mains"
            return Power(OVERRIDE, charging, f'[machine] power = "{self.rules.power}"')
        return await self._sources.power()

    async def activity(self, source: str) -> ActivityAck:
        """Somebody is typing there: whoever waits for idle waits on, at once."""
        self._editors.pop(source, None)
        self._editors[source] = self._clock.elapsed()
        if len(self._editors) > MOST_EDITORS:
            del self._editors[next(iter(self._editors))]
        known = self._current.facts
        if known.idle and self.rules.idle == "auto":
            await self._became(Facts(False, known.charging))
        return ActivityAck(self.rules.idle == "always", self.rules.idle_ms)

    async def view(self) -> MachineView:
        """Every source is asked, also those behind the first that can tell."""
        answers = [*filter(None, [self._said_by_editors()]), *await self._sources.idle(first=False)]
        idle = self._overridden() if self.rules.idle != "auto" else self._as_idle(answers)
        power = await self.power()
        measured = power if self.rules.power == "auto" else await self._sources.power()
        sources = [SourceView("idle", OVERRIDE, idle.idle, None, idle.detail)] if self.rules.idle != "auto" else []
        sources += [
            SourceView("idle", one.source, self._enough(one.idle_for_ms), one.idle_for_ms, one.detail)
            for one in answers
        ]
        tellers = [power] if self.rules.power == "auto" else [power, measured]
        sources += [SourceView("power", one.source, one.charging, None, one.detail) for one in tellers]
        await self.let_go()
        return MachineView(
            idle.idle, idle.idle_for_ms, self.rules.idle_ms, idle.source,
            power.charging, power.source, sources, sorted(self.watching),
        )  # fmt: skip

    async def let_go(self) -> None:
        """Who has asked out of turn keeps no source open that nobody watches."""
        if not self.watching:
            await self._sources.close()

    async def _became(self, facts: Facts) -> None:
        before, self._current.facts = self._current.facts, facts
        if facts == before and self._looked:
            return
        if not self._looked or (before.idle and not facts.idle) or (before.charging and not facts.charging):
            self._looked = True
            while await self._commands.run(lost, None):
                pass
        if (facts.idle and not before.idle) or (facts.charging and not before.charging):
            self._scheduler.set()

    def _look_at(self, idle: Idle) -> int:
        """When it may have changed: idle is looked after; what is not idle yet cannot be before its time."""
        if idle.idle_for_ms is None:
            return LOOK_AGAIN_MS
        return LOOK_EVERY_MS if idle.idle else max(SOONEST_MS, self.rules.idle_ms - idle.idle_for_ms)

    def _as_idle(self, answers: list[Answer]) -> Idle:
        """The last sign of a user: of what the first source says and what editors say, the later one. Load is no sign
        of a user, and counts only where there is no other."""
        able = [answer for answer in answers if answer.idle_for_ms is not None]
        signs = [answer for answer in able if answer.source not in (EDITORS, "load")][:1]
        signs += [answer for answer in able if answer.source == EDITORS]
        if not (signs or able):
            return Idle(None, None, None, "; ".join(answer.detail for answer in answers) or "nobody can tell")
        best = min(signs or able[:1], key=lambda answer: answer.idle_for_ms or 0)
        return Idle(self._enough(best.idle_for_ms), best.idle_for_ms, best.source, best.detail)

    def _enough(self, idle_for_ms: int | None) -> bool | None:
        return None if idle_for_ms is None else idle_for_ms >= self.rules.idle_ms

    def _overridden(self) -> Idle:
        return Idle(self.rules.idle == "always", None, OVERRIDE, f'[machine] idle = "{self.rules.idle}"')

    def _said_by_editors(self) -> Answer | None:
        if not self._editors:
            return None
        name, at = max(self._editors.items(), key=lambda item: item[1])
        return Answer(EDITORS, max(0, self._clock.elapsed() - at), f"{name} told of activity last")
