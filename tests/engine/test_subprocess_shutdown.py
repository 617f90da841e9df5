"""A daemon in a process of its own that is stopped or killed while commands run: what becomes of them."""

import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.processes import table
from tests.engine.commands import WAIT, family, sh
from tests.harness import Process
from tests.rpc.wire import rows
from tests.supervisor.families import is_there, marked, until

TREE = f"print(os.getpid(), child(), child(os.setsid, twice), child(os.setsid, deaf, twice), hidden()); {WAIT}"
Start = Callable[..., Process]


@pytest.fixture
def daemon(home: Path) -> Iterator[Start]:
    """Starts semanticad in this test's home, again and again if need be."""
    home.mkdir(exist_ok=True)
    process = Process(home)

    def begin(grace_ms: int = 300) -> Process:
        (home / "config.toml").write_text(f"[daemon]\nmax_slots = 2\ngrace_ms = {grace_ms}\n")
        return process.start()

    yield begin
    process.__exit__()


def enqueue(daemon: Process, argv: list[str], **spec: Any) -> str:
    return str(daemon.call("job.enqueue", job_type="T", payload={"argv": argv, "cwd": "/"}, **spec)["job_id"])


def pids_of(daemon: Process, job_id: str) -> list[int]:
    """Of the whole tree, as it tells them itself."""
    text = daemon.call("job.logs", job_id=job_id, timeout_ms=10_000)["chunk"]
    return [int(pid) for pid in text.split()]


def gone(pids: list[int]) -> bool:
    return not any(is_there(pid) for pid in pids)


@pytest.mark.parametrize(("on_interrupt", "attempts", "state"), [
    ("fail", 1, "FAILED"), ("fail", 3, "SCHEDULED"), ("requeue", 1, "QUEUED"),
])  # fmt: skip
def test_stopped_it_ends_its_runs_and_their_jobs_end_as_they_asked_for(
    daemon: Start, home: Path, on_interrupt: str, attempts: int, state: str
) -> None:
    process = daemon()
    job_id = enqueue(process, family(TREE), on_interrupt=on_interrupt, max_attempts=attempts)
    pids = pids_of(process, job_id)
    assert len(pids) == 5
    assert process.stop() == 0
    assert gone(pids)
    (job,) = rows(home, "SELECT state, attempts, json_extract(error, '$.code') FROM jobs")
    given_back = on_interrupt == "requeue"
    assert job == (state, 0 if given_back else 1, None if given_back else "E_SHUTDOWN")
    (run,) = rows(home, "SELECT status, json_extract(error, '$.code') FROM job_runs")
    assert run == ("INTERRUPTED" if given_back else "FAILED", "E_SHUTDOWN")


def test_a_run_that_ends_well_within_its_grace_has_ended_well(daemon: Start, home: Path) -> None:
    process = daemon(grace_ms=5000)
    job_id = enqueue(process, sh("trap 'exit 0' TERM; echo $$; while :; do sleep 0.02; done"))
    pids_of(process, job_id)
    assert process.stop() == 0
    assert rows(home, "SELECT state, exit_code FROM jobs") == [("DONE", 0)]


def test_a_second_signal_does_not_wait_for_the_runs_but_leaves_none(daemon: Start, home: Path) -> None:
    process = daemon(grace_ms=60_000)
    job_id = enqueue(process, family(f"deaf(); print(os.getpid()); {WAIT}"))
    pids = pids_of(process, job_id)
    process.signal(signal.SIGTERM)
    until(lambda: not process.socket.exists())
    process.signal(signal.SIGTERM)
    assert process.process is not None
    assert process.process.wait(40) == 0, "not after the minute of grace"
    until(lambda: gone(pids))
    assert rows(home, "SELECT state, json_extract(error, '$.code') FROM jobs") == [("FAILED", "E_SHUTDOWN")]


@pytest.mark.parametrize("kept", [True, False])
def test_killed_it_leaves_nothing_running_and_the_next_one_retries_only_then(
    daemon: Start, home: Path, kept: bool
) -> None:
    """The supervisor ends the runs of a daemon that is gone; without it, the next daemon does, before it recovers."""
    process = daemon()
    job_id = enqueue(process, family(TREE), on_interrupt="requeue")
    pids = pids_of(process, job_id)
    run_id = process.call("job.get", job_id=job_id)["run_id"]
    (supervisor,) = [pid for pid in table.own_processes() if is_supervisor(pid, home)]
    if not kept:
        os.kill(supervisor, signal.SIGSTOP)
    process.kill()
    if kept:
        until(lambda: gone([*pids, supervisor]))
    else:
        os.kill(supervisor, signal.SIGKILL)
    process.start()
    assert (gone(pids), marked(run_id)) == (True, [])
    assert len(pids_of(process, job_id)) == 5, "and it runs again"
    statuses = rows(home, "SELECT status, json_extract(error, '$.code') FROM job_runs ORDER BY job_number, number")
    assert statuses == [("INTERRUPTED", "E_ENGINE_CRASH"), ("RUNNING", None)]
    process.call("job.cancel", job_id=job_id, wait_ms=5000)


def is_supervisor(pid: int, home: Path) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"SEMANTICA_SUPERVISOR={home / 'supervisor.lock'}".encode() in environ


def test_a_process_that_has_the_pid_of_a_dead_run_is_not_touched(daemon: Start, home: Path) -> None:
    """As if it had been given again: the same pid, another start. Starts are counted in clock ticks, and the kernel
    gives no pid twice within one."""
    process = daemon()
    job_id = enqueue(process, sh("echo $$; exec sleep 600"))
    (pid,) = pids_of(process, job_id)
    process.kill()
    until(lambda: gone([pid]))
    tick = table.ms_since_boot()
    until(lambda: table.ms_since_boot() > tick)
    bystander = subprocess.Popen(["sleep", "600"])
    connection = sqlite3.connect(home / "meta.db", isolation_level=None)
    connection.execute("DROP TRIGGER job_runs_process_is_final")
    connection.execute("UPDATE job_runs SET pid = ?", (bystander.pid,))
    connection.close()
    process.start(ready=True)
    assert process.call("job.get", job_id=job_id)["state"] == "FAILED"
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_what_was_to_be_kept_outlives_the_daemon(daemon: Start, home: Path) -> None:
    process = daemon()
    job_id = enqueue(process, family("print(child(os.setsid))"), leftovers="keep")
    assert process.call("job.wait", job_id=job_id)["job"]["state"] == "DONE"
    (pid,) = pids_of(process, job_id)
    assert process.stop() == 0
    assert is_there(pid)
    process.start()
    assert is_there(pid)
    os.kill(pid, signal.SIGKILL)
