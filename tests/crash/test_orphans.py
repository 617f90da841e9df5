"""Processes that outlive their daemon: found by who they are and ended before anything is tried again; nobody else is.

`tests/crash/test_recovery` has what becomes of jobs, `test_failpoints` the moment before a pid is written.
"""

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.crash import handlers, invariants, process_list
from tests.crash.command import FOR_EVER_MS
from tests.crash.journal import Journal
from tests.engine import sample_handlers
from tests.harness import Process

STAYING = {"plain": 1, "deaf": 1, "fork": 2, "escape": 2, "deaf_escape": 2, "bare_escape": 2}


@pytest.fixture
def process(home: Path) -> Iterator[Process]:
    (home / "config.toml").write_text(sample_handlers.config(slots=8))
    with Process(home) as one:
        yield one
    process_list.kill([found.pid for found in process_list.processes(home)] + process_list.supervisors(home))


def enqueue(process: Process, journal: Journal, kind: str, ms: int = FOR_EVER_MS, **spec: Any) -> str:
    payload = journal.command(kind, ms, spec.get("subject_key", f"{kind}-{ms}"))
    spec = {"job_type": "command", "payload": payload, "backoff_base_ms": 1, **spec}
    return str(process.call("job.enqueue", **spec)["job_id"])


def orphan(process: Process) -> list[int]:
    """Daemon and supervisor are killed, and of what they ran nothing else: the pids that go on."""
    supervisors = process_list.supervisors(process.home)
    process_list.kill(supervisors, signal.SIGSTOP)
    process.kill()
    process_list.kill(supervisors)
    left = [found.pid for found in process_list.processes(process.home)]
    assert left, "nobody is left: nothing would be shown"
    return left


def start_again(process: Process) -> None:
    process.start()
    invariants.check(process.home)
    process_list.check(process.home)


def job_of(process: Process, job_id: str) -> dict[str, Any]:
    return dict(process.call("job.get", job_id=job_id))


def ended(process: Process, job_id: str) -> dict[str, Any]:
    waited = process.call("job.wait", job_id=job_id, timeout_ms=40_000)
    assert waited["finished"], waited["job"]["state"]
    return dict(waited["job"])


@contextmanager
def edited(home: Path) -> Iterator[sqlite3.Connection]:
    """The database of a daemon that is not there."""
    connection = sqlite3.connect(home / "meta.db")
    with connection:
        yield connection
    connection.close()


def test_orphans_are_ended_though_daemon_and_supervisor_are_dead(process: Process, journal: Journal) -> None:
    process.start()
    jobs = [enqueue(process, journal, kind) for kind in STAYING]
    journal.until("beat", sum(STAYING.values()))
    left = orphan(process)
    assert len(left) == sum(STAYING.values())
    start_again(process)
    assert process_list.processes(process.home) == []
    ends = [job_of(process, job_id) for job_id in jobs]
    told = {(job["state"], job["error"]["code"], job["run_count"]) for job in ends}
    assert told == {("FAILED", "E_ENGINE_CRASH", 1)}
    assert len(journal.begun()) == len(jobs)


def test_the_next_run_begins_when_the_old_one_is_gone(process: Process, journal: Journal) -> None:
    """The journal tells: the new run finds the lock free that all of the old one held, and no beat comes after it."""
    process.start()
    kinds = ["plain", "fork", "deaf_escape"]
    with journal.held():
        retried = [enqueue(process, journal, kind, 300, grace_ms=50, max_attempts=2) for kind in kinds]
        requeued = [enqueue(process, journal, kind, 301, grace_ms=50, on_interrupt="requeue") for kind in kinds]
        journal.until("beat", 2 * sum(STAYING[kind] for kind in kinds))
        orphan(process)
    start_again(process)
    for jobs, attempts in ((retried, 2), (requeued, 1)):
        ends = [ended(process, job_id) for job_id in jobs]
        assert {(job["state"], job["run_count"], job["attempts"]) for job in ends} == {("DONE", 2, attempts)}
    assert len(journal.begun()) == 2 * len(retried + requeued)
    journal.check(process.home, ended=True)
    assert process_list.processes(process.home) == []


def test_a_cancel_and_an_interruption_that_were_accepted_hold(process: Process, journal: Journal) -> None:
    process.start()
    cancelled = enqueue(process, journal, "deaf_escape", max_attempts=5, grace_ms=60_000)
    old = enqueue(process, journal, "deaf", max_attempts=5, grace_ms=60_000, subject_key="a")
    journal.until("beat", 3)
    assert process.call("job.cancel", job_id=cancelled)["cancelling"] == [cancelled]
    new = enqueue(process, journal, "plain", 0, subject_key="a", on_running="cancel")
    orphan(process)
    start_again(process)
    assert [job_of(process, one)["state"] for one in (cancelled, old)] == ["CANCELLED", "SUPERSEDED"]
    assert ended(process, new)["state"] == "DONE"
    journal.check(process.home, ended=True)
    assert process_list.processes(process.home) == []


def test_when_only_the_daemon_dies_its_supervisor_ends_the_runs_and_leaves(process: Process, journal: Journal) -> None:
    """Nobody has to start another one for that."""
    process.start()
    for kind in STAYING:
        enqueue(process, journal, kind)
    journal.until("beat", sum(STAYING.values()))
    process.kill()
    process_list.check_empty(process.home)


def test_so_it_does_when_the_daemon_dies_without_having_heard_it_out(process: Process, journal: Journal) -> None:
    """A socket that is closed with something unread in it is an error at its other end, not an end."""
    (process.home / "config.toml").write_text(handlers.CONFIG)
    process.start()
    assert ended(process, enqueue(process, journal, "plain", 0))["state"] == "DONE"
    command = {"job_type": "command", "payload": journal.command("fork", FOR_EVER_MS, "unheard")}
    jobs = [command, {"job_type": "block", "payload": {"ms": 30_000}}]
    with process.connect() as connection:
        request = {"jsonrpc": "2.0", "id": 1, "method": "job.enqueue_many", "params": {"jobs": jobs}}
        connection.sendall(json.dumps(request).encode() + b"\n")
        journal.until("beat", 2)
        process.kill()
    process_list.check_empty(process.home)


def test_a_start_waits_for_the_supervisor_of_the_daemon_before(process: Process, journal: Journal) -> None:
    """Which may still have an order to carry out: it is stopped before it can read it."""
    process.start()
    assert ended(process, enqueue(process, journal, "plain", 0))["state"] == "DONE"
    supervisors = process_list.supervisors(process.home)
    process_list.kill(supervisors, signal.SIGSTOP)
    job_id = enqueue(process, journal, "plain", 50, on_interrupt="requeue")
    assert job_of(process, job_id)["state"] == "RUNNING"
    process.kill()
    process.start(ready=False)
    with pytest.raises(AssertionError, match="not ready"):
        process.wait_ready(1)
    process_list.kill(supervisors, signal.SIGCONT)
    process.wait_ready()
    job = ended(process, job_id)
    assert (job["state"], job["run_count"]) == ("DONE", 2)
    journal.check(process.home, ended=True)


@pytest.mark.soak
def test_a_supervisor_that_hangs_is_killed_in_the_end(process: Process, journal: Journal) -> None:
    process.start()
    with journal.held():
        job_id = enqueue(process, journal, "escape", 300, max_attempts=2, grace_ms=50)
        journal.until("beat", 2)
    process_list.kill(process_list.supervisors(process.home), signal.SIGSTOP)
    process.kill()
    process.start(ready=False)
    process.wait_ready(40)
    assert ended(process, job_id)["state"] == "DONE"
    journal.check(process.home, ended=True)
    process_list.check(process.home)


def test_when_only_the_supervisor_dies_its_runs_end_and_the_next_one_takes_over(
    process: Process, journal: Journal
) -> None:
    process.start()
    kinds = ["plain", "deaf_escape"]
    once = [enqueue(process, journal, kind) for kind in kinds]
    with journal.held():
        again = [enqueue(process, journal, kind, 300, on_interrupt="requeue", grace_ms=50) for kind in kinds]
        journal.until("beat", 2 * sum(STAYING[kind] for kind in kinds))
    (supervisor,) = process_list.supervisors(process.home)
    process_list.kill([supervisor])
    failed = [ended(process, job_id) for job_id in once]
    assert {(job["state"], job["error"]["code"]) for job in failed} == {("FAILED", "E_ENGINE_CRASH")}
    done = [ended(process, job_id) for job_id in again]
    assert {(job["state"], job["attempts"], job["run_count"]) for job in done} == {("DONE", 1, 2)}
    assert process_list.supervisors(process.home) not in ([], [supervisor])
    process_list.check(process.home)
    journal.check(process.home, ended=True)


def test_a_process_that_its_supervisor_did_not_live_to_tell_of_is_ended_before_the_next_run(
    process: Process, journal: Journal
) -> None:
    """Its first act is to kill the supervisor, which gets no time to say that it has started anything."""
    process.start()
    assert ended(process, enqueue(process, journal, "plain", 0))["state"] == "DONE"
    (supervisor,) = process_list.supervisors(process.home)
    os.sched_setaffinity(supervisor, {min(os.sched_getaffinity(0))})
    os.sched_setscheduler(supervisor, os.SCHED_IDLE | os.SCHED_RESET_ON_FORK, os.sched_param(0))
    kill_once = '[ -e "$0" ] || { : > "$0"; kill -9 $PPID; }; exec "$@"'
    then = journal.command("escape", 300, "killer")["argv"]
    payload = {"argv": ["sh", "-c", kill_once, str(journal.folder / "once"), *then], "cwd": "/"}
    job_id = enqueue(process, journal, "killer", payload=payload, on_interrupt="requeue", grace_ms=100)
    job = ended(process, job_id)
    assert (job["state"], job["run_count"]) == ("DONE", 2)
    process_list.check(process.home)
    journal.check(process.home, ended=True)


def test_a_run_of_another_daemon_is_left_alone(process: Process, journal: Journal, tmp_path: Path) -> None:
    other = Process(process.home / "o").start()
    process.start()
    enqueue(process, journal, "plain", subject_key="ours")
    with other:
        theirs = enqueue(other, journal, "fork", subject_key="theirs")
        journal.until("beat", 3)
        orphan(process)
        start_again(process)
        assert process_list.processes(process.home) == []
        assert (len(process_list.processes(other.home)), job_of(other, theirs)["state"]) == (2, "RUNNING")
        assert other.call("job.cancel", job_id=theirs, wait_ms=5000)["cancelled"] == [theirs]
        assert other.stop() == 0


def test_what_a_job_was_to_leave_behind_stays(process: Process, journal: Journal) -> None:
    process.start()
    job_id = enqueue(process, journal, "escape", 0, leftovers="keep")
    assert ended(process, job_id)["state"] == "DONE"
    journal.until("beat")
    left = orphan(process)
    process.start()
    assert [found.pid for found in process_list.processes(process.home)] == left


class Stranger:
    """A process that has nothing to do with us; `started_at` is ms since the boot, as a run remembers it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "60"], env={}, executable="/bin/sleep")
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        self.started_at = int(fields[19]) * 1000 // os.sysconf("SC_CLK_TCK")
        self.boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self.known = {"pid": self.process.pid, "pid_started_at": self.started_at, "boot_id": self.boot_id}

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def is_alive(self) -> bool:
        return self.process.poll() is None


WHOSE: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"pid_started_at": 1}, True),
    ({"boot_id": "of the boot before"}, True),
    ({"pid_started_at": None, "boot_id": None}, True),
]


def test_a_process_that_has_the_pid_of_a_run_is_touched_only_if_it_is_that_very_one(
    process: Process, journal: Journal
) -> None:
    """What the database knows of a run is made to name a stranger, wholly or in part."""
    with Process(process.home, SEMANTICA_FAILPOINT="after_claim_before_start:kill:1").start() as killed:
        commands = [journal.command("plain", 0, f"lane-{number}") for number in range(len(WHOSE))]
        specs = [{"job_type": "command", "payload": one, "max_attempts": 2, "backoff_base_ms": 1} for one in commands]
        with suppress(EOFError, OSError):
            killed.call("job.enqueue_many", jobs=specs)
        assert killed.process is not None
        killed.process.wait(40)
    with ExitStack() as stack:
        strangers = [stack.enter_context(Stranger()) for _ in WHOSE]
        with edited(process.home) as connection:
            runs = connection.execute("SELECT run_id FROM job_runs WHERE status = 'RUNNING'").fetchall()
            for (run_id,), stranger, (other, _) in zip(runs, strangers, WHOSE, strict=True):
                update = "UPDATE job_runs SET pid = :pid, pid_started_at = :pid_started_at, boot_id = :boot_id"
                connection.execute(f"{update} WHERE run_id = :run_id", stranger.known | other | {"run_id": run_id})
        process.start()
        ends = [ended(process, job["job_id"]) for job in process.call("job.list")["items"]]
        assert [(job["state"], job["run_count"]) for job in ends] == [("DONE", 2)] * len(WHOSE)
        assert [stranger.is_alive() for stranger in strangers] == [lives for _, lives in WHOSE]
        assert process.stop() == 0
    assert len(journal.begun()) == len(WHOSE)


# Seed 004's matrix for a job that ran a command: what the run says, and what becomes of the job.
ROWS = [
    ("DELETE FROM job_runs", "FAILED"),
    ("UPDATE job_runs SET status = 'DONE', finished_at = started_at, exit_code = 0", "DONE"),
    ("UPDATE job_runs SET status = 'FAILED', finished_at = started_at, exit_code = 7", "FAILED"),
    ("UPDATE job_runs SET status = 'CANCELLED', finished_at = started_at", "CANCELLED"),
]


def test_whatever_the_run_of_a_running_job_says_its_processes_are_ended(process: Process, journal: Journal) -> None:
    process.start()
    jobs = [enqueue(process, journal, "escape", FOR_EVER_MS + number) for number in range(len(ROWS))]
    journal.until("beat", 2 * len(ROWS))
    runs = [job_of(process, job_id)["runs"][-1]["run_id"] for job_id in jobs]
    orphan(process)
    with edited(process.home) as connection:
        for run_id, (edit, _) in zip(runs, ROWS, strict=True):
            connection.execute(f"{edit} WHERE run_id = ?", (run_id,))
    process.start()
    assert [job_of(process, job_id)["state"] for job_id in jobs] == [state for _, state in ROWS]
    assert process_list.processes(process.home) == []


def test_a_command_whose_secret_went_with_the_daemon_never_runs_without(process: Process, journal: Journal) -> None:
    process.start()
    process.call("queue.pause")
    job_id = enqueue(process, journal, "plain", 0, env_vars={"API_TOKEN": "of the wise"}, max_attempts=3)
    process.kill()
    start_again(process)
    process.call("queue.resume")
    job = ended(process, job_id)
    assert (job["state"], job["error"]["code"]) == ("FAILED", "E_SECRET_LOST")
    assert journal.begun() == []
