"""What a daemon under test has acknowledged about jobs that wait for events, and about two schedules: for every second,
and for an event."""

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
SELECT job_id, replace(key, 'semantica:event:', '') FROM job_conditions
WHERE met_at IS NOT NULL AND key NOT LIKE 'semantica:turn:%'
"""
RAN = "SELECT id FROM jobs WHERE run_count > 0 AND state IN ('DONE', 'FAILED')"
TOLD = """
SELECT event_type, payload FROM events
WHERE event_type IN ('schedule.fired', 'schedule.skipped', 'schedule.failed')
  AND json_extract(payload, '$.name') = 'every second'
ORDER BY sequence
"""
FIRED_BY_EVENT = """
SELECT emitted.sequence, job_id FROM (
  SELECT sequence, row_number() OVER (ORDER BY sequence) AS nth FROM events
  WHERE event_type = 'event.emitted' AND json_extract(payload, '$.key') = ?
) AS emitted FULL JOIN (
  SELECT json_extract(payload, '$.job_id') AS job_id, row_number() OVER (ORDER BY sequence) AS nth FROM events
  WHERE event_type = 'schedule.fired' AND json_extract(payload, '$.name') = 'on event'
) USING (nth)
ORDER BY nth
"""


@dataclass
class PendingEvent:
    """An event that a job waits for. `tried`: an emit was sent and not answered, so it may have arrived."""

    key: str
    value: str | None
    job_id: str | None = None
    tried: bool = False


class PendingEvents:
    """Events that the jobs of one client wait for, until the client has emitted them and got the reply."""

    def __init__(self, name: str, random: Random) -> None:
        self._name = name
        self._random = random
        self._number = 0
        self._left: dict[str, PendingEvent] = {}

    def schedule(self) -> dict[str, Any]:
        """The schedule of a new job: it waits for events of its own, sometimes for the machine or a delay too."""
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
        self._left[key] = PendingEvent(key, value)
        return key

    def acknowledged(self, spec: dict[str, Any], job_id: str) -> None:
        """The job is stored: an event emitted from now on must reach it."""
        schedule = spec.get("schedule", {})
        for key in (schedule.get("wait_for_event"), *schedule.get("conditions", {})):
            if key in self._left:
                self._left[key].job_id = job_id

    def to_emit(self, everything: bool) -> list[PendingEvent]:
        """Some of the events that acknowledged jobs wait for; with `everything` all, also of unacknowledged jobs."""
        return [one for one in self._left.values() if everything or (one.job_id and self._random.random() < 0.5)]

    def emitted(self, event: PendingEvent, matched: list[str]) -> None:
        """The reply of an emit named the jobs it matched: the one that waits, or none if it came before."""
        assert event.job_id is None or matched == [event.job_id] or (event.tried and matched == []), (event, matched)
        del self._left[event.key]


def check_latched(home: Path, latched: set[tuple[str, str]], ended: bool) -> None:
    """Fails when an acknowledged event, as (job, key), is not stored; with `ended`, when its job has not run."""
    with reading(home) as connection:
        met = set(connection.execute(MET).fetchall())
        ran = {row[0] for row in connection.execute(RAN)}
    lost = latched - met
    assert not lost, f"{len(lost)} acknowledged events are forgotten: {sorted(lost)[:5]}"
    if ended:
        idle = {job_id for job_id, _ in latched} - ran
        assert not idle, f"all that they waited for has come, and they did not run: {sorted(idle)[:5]}"


class OnEvent:
    """A schedule that makes a job for each event with its key."""

    def __init__(self, process: Process, key: str) -> None:
        self._key = key
        self.acknowledged: list[str] = []
        process.call("template.put", name="on event", spec={"job_type": "semantica.noop", "max_attempts": 3})
        process.call("schedule.put", name="on event", template_id="on event", on_event=key)

    def emitted(self, key: str, fired: list[str]) -> None:
        """The reply of an emit named the jobs it made."""
        assert len(fired) == (key == self._key)
        self.acknowledged += fired

    def check(self, home: Path) -> None:
        """Fails unless each event that is stored has made one job, and the replies named those."""
        with reading(home) as connection:
            found = connection.execute(FIRED_BY_EVENT, (self._key,)).fetchall()
        assert all(sequence and job_id for sequence, job_id in found), found
        assert [job_id for _, job_id in found] == self.acknowledged


class EverySecond:
    """A schedule that fires every second, and for each second it has missed. `by_interval`: counted from now on, not
    the seconds of the clock."""

    def __init__(self, process: Process, by_interval: bool = False) -> None:
        process.call("template.put", name="second", spec={"job_type": "semantica.noop", "max_attempts": 3})
        times: dict[str, Any] = {"every_ms": 1000} if by_interval else {"cron_expression": "* * * * * *"}
        asked = {"name": "every second", "template_id": "second", **times}
        self.first: int = process.call("schedule.put", **asked, misfire="run_all")["next_trigger_at"]

    def check(self, home: Path) -> Occurrences:
        """Fails unless the stream has each second once and in order, up to the newest."""
        with reading(home) as connection:
            told = connection.execute(TOLD).fetchall()
        seconds = Occurrences(1000, self.first, self.first)
        for event_type, payload in told:
            assert event_type == "schedule.fired", (event_type, payload)
            seconds.event(event_type, json.loads(payload))
        assert len(set(seconds.jobs)) == len(seconds.jobs), "one job for two times"
        return seconds

    def stop(self, process: Process) -> None:
        """Disables the schedule once it has fired for every second until now."""
        until, give_up = time.time() * 1000, time.monotonic() + 15
        while (self.check(process.home).following or 0) <= until:
            assert time.monotonic() < give_up, f"not all seconds have fired: {process.stderr()}"
            time.sleep(0.02)
        process.call("schedule.disable", schedule_id="every second")
