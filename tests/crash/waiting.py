"""Jobs that wait for events, and the schedule of every second: what is promised of them, kept outside of it all."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.crash.invariants import reading
from tests.harness import Process
from tests.stateful.occurrences import Occurrences

MET = """
SELECT id, wait_for_event FROM jobs WHERE event_met_at IS NOT NULL
UNION ALL
SELECT job_id, key FROM job_conditions WHERE met_at IS NOT NULL
"""
RAN = "SELECT id FROM jobs WHERE run_count > 0 AND state IN ('DONE', 'FAILED')"
TOLD = """
SELECT event_type, payload FROM job_events
WHERE event_type IN ('schedule.fired', 'schedule.skipped', 'schedule.failed') ORDER BY sequence
"""


@dataclass
class Saying:
    """An event that some job waits for. `tried`: it may have come already, though nobody has answered."""

    key: str
    value: str | None
    job_id: str | None = None
    tried: bool = False


class Sayings:
    """Of one client: what the jobs that it has asked for wait for, until it has said it and was answered."""

    def __init__(self, name: str, random: Random) -> None:
        self._name = name
        self._random = random
        self._number = 0
        self._left: dict[str, Saying] = {}

    def schedule(self) -> dict[str, Any]:
        """One that waits for events which nobody else waits for; sometimes for more than that."""
        event, one, other = (self._new(value) for value in (None, "1", "2"))
        waits: list[dict[str, Any]] = [
            {"wait_for_event": event},
            {"conditions": {one: "1"}},
            {"conditions": {one: "1", other: "2"}, "wait_for_event": event},
            {"wait_for_event": event, "wait_for_idle": True},
            {"wait_for_event": event, "require_charging": True, "type": "AFTER", "delay_ms": 30},
        ]
        chosen = {"type": "CONDITION", **self._random.choice(waits)}
        for key in {event, one, other} - {chosen.get("wait_for_event"), *chosen.get("conditions", {})}:
            del self._left[key]
        return chosen

    def _new(self, value: str | None) -> str:
        self._number += 1
        key = f"{self._name}:{self._number}"
        self._left[key] = Saying(key, value)
        return key

    def acknowledged(self, spec: dict[str, Any], job_id: str) -> None:
        """It waits: whatever is said from now on, it hears."""
        schedule = spec.get("schedule", {})
        for key in (schedule.get("wait_for_event"), *schedule.get("conditions", {})):
            if key in self._left:
                self._left[key].job_id = job_id

    def to_say(self, everything: bool) -> list[Saying]:
        """Some of what is waited for; or all, also what nobody may have asked for after all."""
        return [one for one in self._left.values() if everything or (one.job_id and self._random.random() < 0.5)]

    def said(self, saying: Saying, matched: list[str]) -> None:
        heard = [] if saying.job_id is None else [saying.job_id]
        assert saying.job_id is None or matched == heard or (saying.tried and matched == []), (saying, matched)
        del self._left[saying.key]


def check_latched(home: Path, latched: set[tuple[str, str]], ended: bool) -> None:
    """`latched`: (job, key) of every event that was answered. With `ended` those jobs have run."""
    with reading(home) as connection:
        met = set(connection.execute(MET).fetchall())
        ran = {row[0] for row in connection.execute(RAN)}
    lost = latched - met
    assert not lost, f"{len(lost)} acknowledged events are forgotten: {sorted(lost)[:5]}"
    if ended:
        idle = {job_id for job_id, _ in latched} - ran
        assert not idle, f"all that they waited for has come, and they did not run: {sorted(idle)[:5]}"


class Seconds:
    """A schedule that fires every second and makes up for all that it has missed."""

    def __init__(self, process: Process) -> None:
        process.call("template.put", name="second", spec={"job_type": "semantica.noop", "max_attempts": 3})
        asked = {"name": "every second", "template_id": "second", "cron_expression": "* * * * * *"}
        self.first: int = process.call("schedule.put", **asked, misfire="run_all")["next_trigger_at"]

    def check(self, home: Path) -> Occurrences:
        """By the stream: every second once, in order, up to where it has come."""
        with reading(home) as connection:
            told = connection.execute(TOLD).fetchall()
        seconds = Occurrences(1000, self.first)
        for event_type, payload in told:
            assert event_type == "schedule.fired", (event_type, payload)
            seconds.told(event_type, json.loads(payload))
        assert len(set(seconds.jobs)) == len(seconds.jobs), "one job for two times"
        return seconds

    def stop(self, process: Process) -> None:
        """When all until now have fired."""
        until, give_up = time.time() * 1000, time.monotonic() + 15
        while (self.check(process.home).following or 0) <= until:
            assert time.monotonic() < give_up, f"not all seconds have fired: {process.stderr()}"
            time.sleep(0.02)
        process.call("schedule.disable", schedule_id="every second")
