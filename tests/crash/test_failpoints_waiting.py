"""The daemon killed at each of its named points while a schedule fires, and while events come that jobs wait for."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon import failpoints
from tests.crash import invariants
from tests.crash.test_failpoints import NOT_PASSED
from tests.crash.test_kill_loop import until_all_has_ended
from tests.crash.waiting_jobs import EverySecond, check_latched
from tests.harness import Process

# A commit is passed a few times at every start, and then a few times for each job, event and second. How many there are
# before the first call depends on the time that the start takes, so there are some and then more, until each kind of
# call was cut short.
COMMITS = ("before_commit", "after_commit_before_reply")
FIRST, SOME, MOST = 4, 9, 40
CALLS = {"job.enqueue", "event.emit"}
NAMES = [name for name in failpoints.NAMES if name not in (*NOT_PASSED, "after_spawn_before_pid_commit")]


class Listeners:
    """Jobs that wait for one event each, and the events, until the daemon dies; then the same calls once more."""

    def __init__(self) -> None:
        self.number = 0
        self.jobs: dict[str, str] = {}
        self.latched: set[tuple[str, str]] = set()
        self.unanswered: list[str] = []

    def until_it_dies(self, process: Process) -> None:
        """Which it may do before it listens."""
        assert process.process is not None
        with suppress(OSError, EOFError, AssertionError):
            process.wait_ready()
        with suppress(OSError, EOFError):
            for _ in range(40):
                self.number += 1
                self.enqueue(process, f"e{self.number}")
                self.emit(process, f"e{self.number}", first=True)
        assert process.process.wait(40) == -9, process.stderr()

    def enqueue(self, process: Process, key: str) -> None:
        self.unanswered.append("job.enqueue")
        schedule = {"type": "CONDITION", "wait_for_event": key, "conditions": {f"{key}'": "1"}}
        spec: dict[str, Any] = {"job_type": "semantica.noop", "idempotency_key": key, "max_attempts": 3}
        ack = process.call("job.enqueue", **spec, schedule=schedule)
        assert ack["job_id"] == self.jobs.setdefault(key, ack["job_id"])
        self.unanswered.pop()

    def emit(self, process: Process, key: str, first: bool) -> None:
        """Both that it waits for; when there was no answer before, it may have come already."""
        for said in (key, f"{key}'"):
            self.unanswered.append("event.emit")
            matched = process.call("event.emit", key=said, value="1")["matched"]
            assert matched == [self.jobs[key]] or (not first and matched == [])
            self.latched.add((self.jobs[key], said))
            self.unanswered.pop()


@pytest.mark.parametrize("name", NAMES)
def test_killed_at_each_point_no_event_is_forgotten_and_no_time_of_a_schedule(home: Path, name: str) -> None:
    listeners = Listeners()
    with Process(home).start() as process:
        seconds = EverySecond(process)
        process.stop()
    for passage in range(FIRST, MOST) if name in COMMITS else (1,):
        with Process(home, SEMANTICA_FAILPOINT=f"{name}:kill:{passage}").start(ready=False) as process:
            listeners.until_it_dies(process)
        invariants.check(home)
        seconds.check(home)
        check_latched(home, listeners.latched, ended=False)
        if passage >= SOME and {*listeners.unanswered} == CALLS:
            break
    assert name not in COMMITS or {*listeners.unanswered} == CALLS
    with Process(home).start() as process:
        for number in range(1, listeners.number + 1):
            listeners.enqueue(process, f"e{number}")
            listeners.emit(process, f"e{number}", first=False)
        seconds.stop(process)
        until_all_has_ended(process)
    with invariants.reading(home) as connection:
        states = dict(connection.execute("SELECT state, count(*) FROM jobs GROUP BY state").fetchall())
    assert states == {"DONE": listeners.number + len(seconds.check(home).jobs)}, "one for each key and each second"
    check_latched(home, listeners.latched, ended=True)
