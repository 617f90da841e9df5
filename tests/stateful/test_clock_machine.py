"""A daemon on a manual clock that is set, suspended and killed between any two steps, asked over its socket.

SEMANTICA_EXAMPLES says how many walks (`scripts/soak`). A crash is what a kill leaves of a daemon: its files as they
are at that moment, and nothing of what it knew.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semantica_daemon import daemon as composition
from semantica_daemon.clock import Clock
from semantica_daemon.engine.probes import Places, Sources
from semantica_daemon.model.machine import Power
from tests.crash import invariants
from tests.engine import sample_handlers
from tests.harness import Harness, ManualClock, daemon
from tests.stateful.occurrences import Occurrences
from tests.stateful.waits import DEBOUNCE_MS, IDLE_MS, MAX_WAIT_MS, World

EXAMPLES = 2 * int(os.environ.get("SEMANTICA_EXAMPLES", "6"))
pytestmark = [pytest.mark.timeout(120 + 10 * EXAMPLES), pytest.mark.soak]

HOUR, DAY = 3_600_000, 86_400_000
NOTICED_MS = 6000  # of the clock: by then whatever has changed is noticed
PERIOD_MS = 10_000
INTERVAL_MS = 21_000
TIMES = ("trigger_at", "first_at", "last_at")
MOST_LONG = 4
CONFIG = sample_handlers.config(slots=8, more=f"[machine]\nidle_ms = {IDLE_MS}\n")
DATABASE = ("meta.db", "meta.db-wal")
SCHEDULES: list[dict[str, Any]] = [
    {"type": "AFTER", "delay_ms": 4000},
    {"type": "AFTER", "delay_ms": HOUR},
    {"type": "CONDITION", "wait_for_idle": True},
    {"type": "CONDITION", "require_charging": True},
    {"type": "CONDITION", "wait_for_idle": True, "require_charging": True, "wait_for_event": "e"},
    {"type": "CONDITION", "wait_for_event": "e"},
    {"type": "CONDITION", "conditions": {"e": "1", "f": "2"}},
    {"type": "AFTER", "delay_ms": 9000, "conditions": {"f": "1"}, "wait_for_idle": True},
]
LONG: list[dict[str, Any]] = [
    {"type": "CONDITION", "wait_for_idle": True},
    {"type": "CONDITION", "require_charging": True},
    {"type": "AFTER", "delay_ms": 4000, "wait_for_idle": True, "require_charging": True},
]
TOLD = """
SELECT sequence, event_type, payload FROM job_events
WHERE event_type IN ('schedule.fired', 'schedule.skipped', 'schedule.failed') AND sequence > ? ORDER BY sequence
"""


class Alone(Sources):
    """A machine of which nobody tells but editors, and `mains`; in its place before a daemon can look."""

    mains = False

    def __init__(self, clock: Clock, running: Callable[[], int]) -> None:
        super().__init__(clock, running, {}, Places(Path("/nowhere"), Path("/nowhere"), Path("/nowhere")), "linux")
        self._chain = {}

    async def power(self) -> Power:
        return Power("told", Alone.mains, "as the test says")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "Sources", Alone)
    monkeypatch.setitem(sample_handlers.doors, "shut", sample_handlers.Door())


class Hosted:
    """A daemon in a task of its own: it only goes on while somebody waits for something."""

    def __init__(self, home: Path, clock: ManualClock, seed: int) -> None:
        """`seed`: of its ids, which are new ones."""
        self.home = home
        self._seed = seed
        self.started: asyncio.Future[Harness] = asyncio.get_running_loop().create_future()
        self._clock = clock
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            async with daemon(self.home, self._clock, CONFIG, self._seed) as harness:
                self.started.set_result(harness)
                await self._stop.wait()
        except BaseException as error:
            if self.started.done():
                raise
            self.started.set_exception(error)

    async def during(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What it comes to; if the daemon dies meanwhile, why."""
        asked = asyncio.create_task(coroutine)
        await asyncio.wait({asked, self._task}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            asked.cancel()
            assert self._task.done(), f"no answer: {asked.get_stack()}"
            await self._task
        return await asked

    async def stop(self) -> None:
        self._stop.set()
        await self._task


class ClockMachine(RuleBasedStateMachine):
    @initialize(misfire=st.sampled_from(["run_once", "skip", "run_all"]))
    def open(self, misfire: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="sem-"))
        self.clock, self.starts, self.sequence = ManualClock(), 0, 0
        self.world = World(self.clock)
        self.states: dict[str, str] = {}
        Alone.mains = False
        self.run(self._start())
        self.call("template.put", name="t", spec={"job_type": "semantica.noop"})
        asked = {"template_id": "t", "misfire": misfire}
        first = self.call("schedule.put", name="s", cron_expression="*/10 * * * * *", **asked)["next_trigger_at"]
        self.seconds = Occurrences(PERIOD_MS, first)
        first = self.call("schedule.put", name="interval", every_ms=INTERVAL_MS, **asked)["next_trigger_at"]
        self.intervals = Occurrences(INTERVAL_MS, first, first)
        self.call("schedule.put", name="on e", template_id="t", on_event="e", overlap="supersede")
        self.emits, self.fired = 0, 0
        self.is_run_all = misfire == "run_all"

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(coroutine)

    def call(self, method: str, /, **params: Any) -> Any:
        return self.run(self.hosted.during(self.harness.call(method, **params)))

    def advance(self, ms: int) -> None:
        self.run(self.hosted.during(self.harness.advance(ms)))

    async def _start(self) -> None:
        """Each in a folder of its own, on what was left of the last one."""
        self.starts += 1
        home = self.folder / str(self.starts)
        home.mkdir(exist_ok=True)
        self.hosted = Hosted(home, self.clock, self.starts)
        self.harness = await self.hosted.started
        await self.harness.settle()

    def teardown(self) -> None:
        if hasattr(self, "hosted"):
            self.run(self.hosted.stop())
            self.loop.close()
            shutil.rmtree(self.folder)

    # What is asked

    @rule(schedule=st.sampled_from(SCHEDULES))
    def a_job_is_asked_for(self, schedule: dict[str, Any]) -> None:
        self.world.enqueued(self.call("job.enqueue", job_type="semantica.noop", schedule=schedule)["job_id"], schedule)

    @rule(ms=st.sampled_from([5000, 60_000, HOUR]), idle=st.booleans())
    def a_job_is_asked_for_at_a_time(self, ms: int, idle: bool) -> None:
        self.a_job_is_asked_for(schedule={"type": "AT", "scheduled_at": self.clock.now() + ms, "wait_for_idle": idle})

    @precondition(lambda self: sum(job.is_long for job in self.world.jobs.values()) < MOST_LONG)
    @rule(schedule=st.sampled_from(LONG))
    def a_job_that_can_be_stopped_is_asked_for(self, schedule: dict[str, Any]) -> None:
        """It runs whenever the machine is fit for it."""
        spec = {"job_type": "hold", "payload": {"door": "shut"}, "stop_when_lost": True, "on_interrupt": "requeue"}
        job_id = self.call("job.enqueue", **spec, schedule=schedule)["job_id"]
        self.world.enqueued(job_id, schedule)
        self.world.jobs[job_id].is_long = True

    @rule()
    def a_file_is_saved(self) -> None:
        spec = {"subject_key": "file", "debounce_ms": DEBOUNCE_MS, "max_wait_ms": MAX_WAIT_MS}
        ack = self.call("job.enqueue", job_type="semantica.noop", **spec)
        assert ack["superseded"] == self.world.saved(ack["job_id"])

    @rule(key=st.sampled_from(["e", "f"]), value=st.sampled_from(["1", "2"]))
    def an_event_comes(self, key: str, value: str) -> None:
        told = self.call("event.emit", key=key, value=value)
        assert sorted(told["matched"]) == sorted(self.world.emitted(key, value))
        assert len(told.get("fired", [])) == (key == "e")
        self.emits += key == "e"

    @precondition(lambda self: self.world.repeatable)
    @rule(pick=st.integers(0, 100))
    def a_job_is_retried(self, pick: int) -> None:
        old_id = self.world.repeatable[pick % len(self.world.repeatable)]
        self.world.retried(old_id, self.call("job.retry", job_id=old_id)["job_id"])

    # What happens to the machine

    @rule(ms=st.sampled_from([1, 1000, 2999, 5000, IDLE_MS, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.advance(ms)

    @rule()
    def somebody_types(self) -> None:
        self.call("machine.activity", source="editor")
        self.world.typed_at = self.clock.elapsed()

    @rule(mains=st.booleans())
    def it_is_plugged_in_or_out(self, mains: bool) -> None:
        """Nobody is told of that; it is looked at now and then, while somebody waits for it."""
        Alone.mains = mains
        self.world.mains |= mains
        self.advance(NOTICED_MS)
        if not mains:
            self.look()
            self.world.mains = False

    @rule(ms=st.sampled_from([-DAY, -HOUR, -2000, 2000, HOUR, DAY]))
    def the_clock_is_set(self, ms: int) -> None:
        ms = min(ms, HOUR) if self.is_run_all else ms
        self.clock.step(ms)
        self.seconds.clock_was_set()
        self.advance(NOTICED_MS)

    @rule(ms=st.sampled_from([7000, HOUR, 8 * HOUR]))
    def the_machine_sleeps(self, ms: int) -> None:
        self.clock.suspend(min(ms, HOUR) if self.is_run_all else ms)
        self.advance(NOTICED_MS)

    @rule(killed=st.booleans(), set_by=st.sampled_from([0, 0, -HOUR, HOUR]))
    def it_is_started_again(self, killed: bool, set_by: int) -> None:
        """A new daemon has no timers of the old one, and nobody has told it of any editor."""
        self.run(self._stop(killed))
        self.clock._timers.clear()
        self.clock.step(set_by)
        if set_by:
            self.seconds.clock_was_set()
        self.world.typed_at = None
        self.run(self._start())

    async def _stop(self, killed: bool) -> None:
        following = self.folder / str(self.starts + 1)
        following.mkdir()
        if not killed:
            await self.hosted.stop()
        for name in DATABASE:
            if (self.hosted.home / name).exists():
                shutil.copy(self.hosted.home / name, following)
        if killed:
            await self.hosted.stop()

    # What holds

    @rule()
    def it_settles(self) -> None:
        """Who waits for nothing any more has started, once all that may take a moment to be noticed was."""
        before = self.world.due(self.states)
        self.advance(NOTICED_MS)
        self.look()
        assert not before & self.world.due(self.states), "they wait for nothing"
        assert self.seconds.following is None or self.seconds.following > self.clock.now()
        assert (self.intervals.following or 0) > self.clock.elapsed()

    @invariant()
    def only_who_may_has_run(self) -> None:
        self.run(self.hosted.during(self.harness.settle()))
        self.look()
        invariants.check(self.hosted.home)

    def look(self) -> None:
        with invariants.reading(self.hosted.home) as connection:
            found = connection.execute("SELECT id, state FROM jobs WHERE schedule_id IS NULL").fetchall()
            told = connection.execute(TOLD, (self.sequence,)).fetchall()
        self.states = dict(found)
        assert self.states.keys() == self.world.jobs.keys()
        for job_id, state in found:
            self.world.saw(job_id, state)
        for self.sequence, event_type, about in told:
            self.see_schedule(event_type, json.loads(about))
        assert self.fired == self.emits

    def see_schedule(self, event_type: str, about: dict[str, Any]) -> None:
        """The times of an interval are moments of the time that has passed: no clock that is set moves them."""
        if about["name"] == "on e":
            self.fired += event_type == "schedule.fired"
        elif about["name"] == "interval":
            set_by = self.clock.now() - self.clock.elapsed()
            moments = {name: about[name] - set_by for name in TIMES if name in about}
            self.intervals.event(event_type, about | moments)
        else:
            self.seconds.event(event_type, about)


TestClockMachine = ClockMachine.TestCase
TestClockMachine.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
