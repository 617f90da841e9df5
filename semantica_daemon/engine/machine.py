"""Watches whether the machine is idle and on mains power, but only while some job needs that.

`probes` has the sources. This part decides when to query them, adds the activity that editors report, publishes the
facts, stops runs whose needs are no longer met, and wakes the scheduler when jobs may start.
"""

from typing import NamedTuple

from semantica_daemon.clock import Clock
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.passes import Wake
from semantica_daemon.engine.probes import Answer, Sources
from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.machine import CurrentFacts, Facts, Idle, MachineRules, MachineStatus, Needs, Power
from semantica_daemon.store import needs as store
from semantica_daemon.store.writes.lost import lost
from semantica_daemon.wire.machine import ActivityAck, ActivityParams, Kind, MachineView, SourceView
from semantica_daemon.wire.types import Params

LOOK_EVERY_MS = 5000  # while the machine is idle or on mains power: a run may have to stop when that ends
LOOK_AGAIN_MS = 30_000  # when no source knows
SOONEST_MS = 1000
MOST_EDITORS = 100
OVERRIDE = "config"
EDITORS = "editors"


class Signals(NamedTuple):
    """Where the machine publishes changes: the facts that claims use, the command that stops runs, the wake of its own
    pass, and the wake of the scheduler, which promotes jobs when the machine becomes idle or is plugged in."""

    current: CurrentFacts
    commands: CommandQueue
    wake: Wake
    scheduler: Wake


class Machine:
    def __init__(self, rules: MachineRules, sources: Sources, readers: Readers, signals: Signals, clock: Clock) -> None:
        self.watching: set[Kind] = set()
        self._sources = sources
        self._clock = clock
        self._readers = readers
        self._current, self._commands, self._wake, self._scheduler = signals
        self._editors: dict[str, int] = {}
        self._looked = False  # the first look withdraws jobs of an earlier daemon whose needs are no longer met
        self._use(rules)
        self._current.facts = self._always

    def _use(self, rules: MachineRules) -> None:
        self.rules = rules
        self._always = Facts(rules.idle == "always", rules.power == "mains")
        measured: dict[Kind, bool] = {"idle": rules.idle == "auto", "power": rules.power == "auto"}
        self._kinds = {kind for kind, is_measured in measured.items() if is_measured}

    def change_rules(self, rules: MachineRules) -> None:
        """Looks at once, by the new rules."""
        if rules != self.rules:
            self._use(rules)
            self._wake.set()

    @property
    def is_idle(self) -> bool | None:
        """None while no job waits for idle, since idle is not watched then."""
        return self._current.facts.idle if self.rules.idle != "auto" or "idle" in self.watching else None

    def needed(self, needs: Needs) -> None:
        """Called after each pass of the scheduler; wakes this part when a job needs something that is not watched
        yet."""
        now, needs = self._clock.now(), needs.only(self._kinds)
        if needs.now(now) - self.watching:
            self._wake.wake_by(now)
        elif (at := needs.next(now)) is not None:
            self._wake.wake_by(at)

    async def step(self) -> int | None:
        needs: Needs = (await self._readers.query(store.needs)).only(self._kinds)
        now = self._clock.now()
        self.watching = needs.now(now)
        if not self.watching:
            await self._sources.close()
            await self._publish(self._always)
            return needs.next(now)
        looks = [needs.next(now)]
        idle, charging = self._always.idle, self._always.charging
        if "power" in self.watching:
            charging = bool((await self.power()).charging)
            looks.append(now + LOOK_EVERY_MS)
        if "idle" in self.watching:  # last, so that no report of an editor comes between the answer and its use
            found = await self.idle()
            idle = bool(found.idle)
            looks.append(now + self._next_look_ms(found))
        await self._publish(Facts(idle, charging))
        return min(at for at in looks if at is not None)

    async def idle(self) -> Idle:
        """Idle by the first source that knows, and by the activity that editors report."""
        if self.rules.idle != "auto":
            return self._overridden()
        editors = self._editors_answer()
        if any((answer.idle_for_ms or 0) < self.rules.idle_ms for answer in editors):
            return self._as_idle(editors)
        answers = await self._sources.idle()
        return self._as_idle([*answers, *self._editors_answer()])

    async def power(self) -> Power:
        if self.rules.power != "auto":
            charging = self.rules.power == "mains"
            return Power(OVERRIDE, charging, f'[machine] power = "{self.rules.power}"')
        return await self._sources.power()

    async def activity(self, params: ActivityParams) -> ActivityAck:
        """A user is typing in an editor: the machine is not idle from now on."""
        self._editors.pop(params.source, None)
        self._editors[params.source] = self._clock.elapsed()
        if len(self._editors) > MOST_EDITORS:
            del self._editors[next(iter(self._editors))]
        known = self._current.facts
        if known.idle and self.rules.idle == "auto":
            await self._publish(Facts(False, known.charging))
        return ActivityAck(self.rules.idle == "always", self.rules.idle_ms)

    async def view(self, _: Params) -> MachineView:
        """Queries every source, also those after the first that knows."""
        answers = [*self._editors_answer(), *await self._sources.idle(query_all=True)]
        idle = self._overridden() if self.rules.idle != "auto" else self._as_idle(answers)
        power = await self.power()
        power_sources = [power] if self.rules.power == "auto" else [power, await self._sources.power()]
        sources = [SourceView("idle", OVERRIDE, idle.idle, None, idle.detail)] if self.rules.idle != "auto" else []
        sources += [
            SourceView("idle", one.source, self._is_idle(one.idle_for_ms), one.idle_for_ms, one.detail)
            for one in answers
        ]
        sources += [SourceView("power", one.source, one.charging, None, one.detail) for one in power_sources]
        await self.close_unused()
        return MachineView(
            idle.idle, idle.idle_for_ms, self.rules.idle_ms, idle.source,
            power.charging, power.source, sources, sorted(self.watching),
        )  # fmt: skip

    async def status(self, idle: bool, power: bool) -> MachineStatus:
        """Queries only what the caller needs."""
        found = MachineStatus(
            self.rules.idle_ms, await self.idle() if idle else Idle(), await self.power() if power else Power()
        )
        await self.close_unused()
        return found

    async def close_unused(self) -> None:
        """Closes sources that were opened for a one-off query."""
        if not self.watching:
            await self._sources.close()

    async def _publish(self, facts: Facts) -> None:
        before, self._current.facts = self._current.facts, facts
        if not self._looked or (before.idle and not facts.idle) or (before.charging and not facts.charging):
            self._looked = True
            while await self._commands.run(lost, None):
                pass
        if (facts.idle and not before.idle) or (facts.charging and not before.charging):
            self._scheduler.set()

    def _next_look_ms(self, idle: Idle) -> int:
        """When to query again: a machine that is not idle yet cannot be idle before `idle_ms` has passed."""
        if idle.idle_for_ms is None:
            return LOOK_AGAIN_MS
        return LOOK_EVERY_MS if idle.idle else max(SOONEST_MS, self.rules.idle_ms - idle.idle_for_ms)

    def _as_idle(self, answers: list[Answer]) -> Idle:
        """Combines the first source that knows with the editors: the most recent activity counts. Load is no sign of a
        user, and is used only if there is no other source."""
        able = [answer for answer in answers if answer.idle_for_ms is not None]
        signs = [answer for answer in able if answer.source not in (EDITORS, "load")][:1]
        signs += [answer for answer in able if answer.source == EDITORS]
        if not (signs or able):
            return Idle(None, None, None, "; ".join(answer.detail for answer in answers) or "no source can tell")
        best = min(signs or able[:1], key=lambda answer: answer.idle_for_ms or 0)
        return Idle(self._is_idle(best.idle_for_ms), best.idle_for_ms, best.source, best.detail)

    def _is_idle(self, idle_for_ms: int | None) -> bool | None:
        return None if idle_for_ms is None else idle_for_ms >= self.rules.idle_ms

    def _overridden(self) -> Idle:
        return Idle(self.rules.idle == "always", None, OVERRIDE, f'[machine] idle = "{self.rules.idle}"')

    def _editors_answer(self) -> list[Answer]:
        """Empty while no editor has reported activity."""
        if not self._editors:
            return []
        name, at = max(self._editors.items(), key=lambda item: item[1])
        return [Answer(EDITORS, max(0, self._clock.elapsed() - at), f"{name} reported activity last")]
