"""A real daemon, a process of its own, driven for most of a minute by the real clock: a cron of every second, AT,
AFTER, backoff, debounce, events, TTL, deadline, timeouts and idleness at once. Nothing is early, nothing is missing.

How late a thing may be is generous: there are two cores, and other tests beside it.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.engine import sample_handlers
from tests.harness import Process

TICKS, TICK_S = 80, 0.5
LATE_MS = 5000
IDLE_MS = 1500
NOBODY = {"DISPLAY": ":9", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/-", "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/-"}
"""An environment in which no source but the editors can tell whether somebody is there."""
BACKOFF_MS, DEBOUNCE_MS, MAX_WAIT_MS, TTL_MS, TIMEOUT_MS = 300, 200, 3000, 700, 600
NOOP = {"job_type": "semantica.noop"}
LONG = {"job_type": "semantica.sleep", "payload": {"ms": 600_000}}
FAILS = {"job_type": "fail_async", "payload": {"how": "plain"}, "max_attempts": 3, "backoff_base_ms": BACKOFF_MS}


def away(tick: int) -> bool:
    """Nobody types in the last third of every ten seconds."""
    return tick % 20 >= 12


class Minute:
    """What is asked of the daemon, by kind."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.asked: dict[str, list[str]] = {}
        self.typed: list[tuple[int, int]] = []  # between which two instants somebody did

    def drive(self) -> int:
        """Until the ticks are over; the first second for which the cron fires."""
        call = self.process.call
        call("queue.pause", queue="paused")
        call("template.put", name="t", spec=NOOP)
        cron = {"cron_expression": "* * * * * *", "misfire": "run_all"}
        first: int = call("schedule.put", name="every second", template_id="t", **cron)["next_trigger_at"]
        begin = time.monotonic()
        for tick in range(TICKS):
            self.tick(tick)
            time.sleep(max(0, begin + TICK_S * (tick + 1) - time.monotonic()))
        call("schedule.disable", schedule_id="every second")
        return first

    def tick(self, tick: int) -> None:
        now = int(time.time() * 1000)
        self.enqueue("at", **NOOP, schedule={"type": "AT", "scheduled_at": now + 137 * (tick % 17)})
        self.enqueue("after", **NOOP, schedule={"type": "AFTER", "delay_ms": 151 * (tick % 13)})
        self.enqueue("ttl", **NOOP, queue="paused", ttl_ms=TTL_MS)
        self.enqueue("deadline", **NOOP, schedule={"type": "AFTER", "delay_ms": 60_000}, deadline=now + 800)
        for _ in range(5):
            self.enqueue("burst", **NOOP, subject_key="burst", debounce_ms=DEBOUNCE_MS)
        self.enqueue("busy", **NOOP, subject_key="busy", debounce_ms=1000, max_wait_ms=MAX_WAIT_MS)
        self.events(tick)
        if tick % 4 == 0:
            self.enqueue("retry", **FAILS)
            self.enqueue("timeout", **LONG, timeout_ms=TIMEOUT_MS)
        self.idle(tick)

    def events(self, tick: int) -> None:
        """What was asked for in the last tick comes in this one."""
        waits = {"type": "CONDITION", "wait_for_event": f"e{tick}", "conditions": {"n": f"{tick}"}}
        self.enqueue("event", **NOOP, schedule=waits)
        if tick:
            matched = [self.emit(f"e{tick - 1}"), self.emit("n", f"{tick - 1}")]
            assert matched == [[self.asked["event"][-2]]] * 2

    def emit(self, key: str, value: str | None = None) -> Any:
        return self.process.call("event.emit", key=key, value=value)["matched"]

    def idle(self, tick: int) -> None:
        if not away(tick):
            before = int(time.time() * 1000)
            self.process.call("machine.activity", source="test")
            self.typed.append((before, int(time.time() * 1000)))
        if tick % 20 == 0:
            self.enqueue("idle", **NOOP, schedule={"type": "CONDITION", "wait_for_idle": True})
        if tick == 0:
            self.enqueue("lost", **LONG, schedule={"type": "CONDITION", "wait_for_idle": True}, stop_when_lost=True)

    def enqueue(self, kind: str, **spec: Any) -> None:
        ack = self.process.call("job.enqueue", **spec)
        assert ack["warnings"] == [] or kind in ("at", "deadline"), ack
        self.asked.setdefault(kind, []).append(ack["job_id"])

    def jobs(self, kind: str) -> list[Any]:
        return [self.process.call("job.get", job_id=job_id) for job_id in self.asked[kind]]

    def until_ended(self) -> None:
        """All that can end by itself; the last event and the last idle wait are given what they wait for."""
        self.emit(f"e{TICKS - 1}")
        self.emit("n", f"{TICKS - 1}")
        self.process.call("job.cancel", job_id=self.asked["lost"][0], wait_ms=5000)
        for job_id in (job_id for ids in self.asked.values() for job_id in ids):
            waited = self.process.call("job.wait", job_id=job_id, timeout_ms=40_000)
            assert waited["finished"], waited["job"]


class Subscriber:
    """Follows everything from the beginning, and reads what it was sent only when all is over."""

    def __init__(self, process: Process) -> None:
        self._connection = process.connect()
        self._stream = self._connection.makefile("rwb")
        request = {"jsonrpc": "2.0", "id": 1, "method": "event.subscribe", "params": {"since": 0}}
        self._stream.write(json.dumps(request).encode() + b"\n")
        self._stream.flush()

    def read_to(self, sequence: int) -> list[Any]:
        found: list[Any] = []
        while not found or found[-1]["sequence"] < sequence:
            message = json.loads(self._stream.readline())
            found += message.get("params", {}).get("events", [])
        return found


def all_events(process: Process) -> list[Any]:
    found: list[Any] = []
    since = 0
    while True:
        page = process.call("event.list", since=since, limit=1000)
        found += page["events"]
        if page["next_sequence"] == since:
            return found
        since = page["next_sequence"]


def on_time(found: int, due: int) -> bool:
    return due <= found <= due + LATE_MS


@pytest.fixture
def process(home: Path) -> Iterator[Process]:
    home.joinpath("config.toml").write_text(sample_handlers.config(slots=6, more=f"[machine]\nidle_ms = {IDLE_MS}\n"))
    with Process(home, **NOBODY).start() as started:
        yield started
        assert started.stop() == 0, started.stderr()


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_a_minute_of_everything_in_real_time(process: Process) -> None:
    minute, subscriber = Minute(process), Subscriber(process)
    first = minute.drive()
    minute.until_ended()
    events = all_events(process)
    check_cron(events, first)
    check_times(minute)
    check_retries_and_limits(minute)
    check_debounce(minute)
    check_idle(minute)
    check_stream(events, subscriber.read_to(events[-1]["sequence"]))


def check_cron(events: list[Any], first: int) -> None:
    """Each second once, and on time."""
    fired = [one for one in events if one["event_type"] == "schedule.fired"]
    instants = [one["payload"]["trigger_at"] for one in fired]
    assert instants[0] == first
    assert {later - earlier for earlier, later in pairwise(instants)} == {1000}
    assert len(instants) >= TICKS * TICK_S - 2
    assert all(on_time(one["timestamp_at"], one["payload"]["trigger_at"]) for one in fired)
    assert len({one["payload"]["job_id"] for one in fired}) == len(fired)
    assert not any(one["event_type"] in ("schedule.skipped", "schedule.failed") for one in events)


def check_times(minute: Minute) -> None:
    for job in minute.jobs("at"):
        assert job["state"] == "DONE"
        assert on_time(job["started_at"], max(job["scheduled_at"], job["created_at"])), job
    for job in minute.jobs("after"):
        assert job["state"] == "DONE"
        assert on_time(job["started_at"], job["created_at"] + job["schedule_delay_ms"]), job
    for job in minute.jobs("event"):
        met = max(job["event_met_at"], *(one["met_at"] for one in job["conditions"]))
        assert (job["state"], on_time(job["started_at"], met)) == ("DONE", True), job
    for job in minute.jobs("deadline"):
        assert (job["state"], on_time(job["finished_at"], job["deadline"])) == ("SKIPPED_DEADLINE", True), job
    for job in minute.jobs("ttl"):
        assert (job["state"], on_time(job["finished_at"], job["queued_at"] + TTL_MS)) == ("SKIPPED_TTL", True), job


def check_retries_and_limits(minute: Minute) -> None:
    """Durations of a run go by the monotonic clock: the wall clock may differ by a millisecond at each end."""
    for job in minute.jobs("retry"):
        assert (job["state"], job["attempts"], len(job["runs"])) == ("FAILED", 3, 3)
        for number, (before, after) in enumerate(pairwise(job["runs"])):
            wait = after["started_at"] - before["finished_at"]
            assert 0.9 * BACKOFF_MS * 2**number <= wait + 1 <= 1.1 * BACKOFF_MS * 2**number + LATE_MS, job
    for job in minute.jobs("timeout"):
        assert (job["state"], job["error"]["code"]) == ("FAILED", "E_TIMEOUT")
        assert on_time(job["finished_at"], job["started_at"] + TIMEOUT_MS - 2), job


def check_debounce(minute: Minute) -> None:
    bursts = minute.jobs("burst")
    assert {job["state"] for job in bursts} == {"DONE", "SUPERSEDED"}
    done = [job for job in bursts if job["state"] == "DONE"]
    assert 1 <= len(done) <= TICKS
    assert bursts[-1]["state"] == "DONE"
    assert all(on_time(job["started_at"], job["created_at"] + DEBOUNCE_MS) for job in done)
    starts = [job["started_at"] for job in minute.jobs("busy") if job["state"] == "DONE"]
    assert all(later - earlier <= MAX_WAIT_MS + LATE_MS for earlier, later in pairwise(starts))
    assert TICKS * TICK_S * 1000 / (MAX_WAIT_MS + LATE_MS) <= len(starts) <= TICKS * TICK_S * 1000 / MAX_WAIT_MS + 2


def check_idle(minute: Minute) -> None:
    """Started when nobody had typed; ended each time that somebody did again, and the attempt was given back."""
    for job in minute.jobs("idle"):
        assert job["state"] == "DONE"
        last = max(before for before, after in minute.typed if after <= job["started_at"])
        assert job["started_at"] >= last + IDLE_MS
    (lost,) = minute.jobs("lost")
    ends = Counter(run["status"] for run in lost["runs"])
    assert ends["INTERRUPTED"] >= 2
    assert set(ends) <= {"INTERRUPTED", "CANCELLED"}
    assert lost["state"] == "CANCELLED"
    assert lost["attempts"] == ends["CANCELLED"]


def check_stream(events: list[Any], followed: list[Any]) -> None:
    """Without gaps, of the whole and of each job; and who followed it has heard the same."""
    assert [one["sequence"] for one in events] == list(range(1, len(events) + 1))
    of_job: dict[str, list[int]] = {}
    for one in events:
        if one["job_id"] is not None:
            of_job.setdefault(one["job_id"], []).append(one["job_sequence"])
    assert all(found == list(range(1, len(found) + 1)) for found in of_job.values())
    assert followed[: len(events)] == events
