"""The workers in examples/, as people copy them: Python and Node, with real jobs, signals and kill -9."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import PATIENCE_S, Process

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
PYTHON, NODE = [sys.executable, "-I", str(EXAMPLES / "worker.py")], ["node", str(EXAMPLES / "worker.mjs")]
COMMANDS = {"python": PYTHON, "node": NODE}
LEASE_MS = 1500


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> list[str]:
    if request.param == "node" and shutil.which("node") is None:
        pytest.skip("NOT TESTED: node is missing")
    return COMMANDS[request.param]


@pytest.fixture
def process(home: Path) -> Iterator[Process]:
    with Process(home).start() as one:
        yield one


@contextmanager
def worker(process: Process, command: list[str], name: str = "w", *types: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Ready when it has registered."""
    environment = {**process.environment, "LEASE_MS": str(LEASE_MS)}
    started = subprocess.Popen([*command, name, *types], env=environment)
    until(lambda: any(one["pid"] == started.pid for one in workers(process)))
    try:
        yield started
    finally:
        started.kill()
        started.wait(PATIENCE_S)


def workers(process: Process) -> list[Any]:
    return list(process.call("worker.list")["workers"])


def until(holds: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it never holds"
        time.sleep(0.02)


def add(process: Process, *argv: str, **spec: Any) -> str:
    spec = {"job_type": "sh", "payload": {"argv": argv, "cwd": "/"}, "execution_mode": "EXTERNAL", **spec}
    return str(process.call("job.enqueue", **spec)["job_id"])


def ended(process: Process, job_id: str) -> Any:
    waited = process.call("job.wait", job_id=job_id, timeout_ms=PATIENCE_S * 1000)
    assert waited["finished"], waited["job"]["state"]
    return waited["job"]


def is_running(process: Process, job_id: str) -> bool:
    return bool(process.call("job.get", job_id=job_id)["state"] == "RUNNING")


def test_examples_are_short() -> None:
    assert all((EXAMPLES / name).read_text().count("\n") < 80 for name in ("worker.py", "worker.mjs"))


def test_it_runs_commands_reports_how_they_ended_and_leaves_on_sigterm(process: Process, command: list[str]) -> None:
    with worker(process, command, "w", "sh", "else") as started:
        good = add(process, "sh", "-c", "echo $WORD", env_vars={"WORD": "hello"})
        bad, missing = add(process, "sh", "-c", "exit 3"), add(process, "/no/such/command", max_attempts=5)
        foreign = add(process, "true", job_type="foreign")
        assert ended(process, good)["result_summary"] == {"output": "hello\n"}
        assert (ended(process, bad)["state"], ended(process, bad)["exit_code"]) == ("FAILED", 3)
        assert (ended(process, missing)["state"], ended(process, missing)["attempts"]) == ("FAILED", 1)
        (one,) = workers(process)
        assert (one["alive"], one["items_processed"], one["items_failed"]) == (True, 1, 2)
        assert process.call("job.get", job_id=foreign)["state"] == "QUEUED"
        started.send_signal(signal.SIGTERM)
        assert started.wait(PATIENCE_S) == 0
    assert workers(process)[0]["left_at"] is not None


def test_it_finishes_its_job_before_it_leaves(process: Process, command: list[str], tmp_path: Path) -> None:
    with worker(process, command) as started:
        job_id = add(process, "sh", "-c", f"touch {tmp_path}/began; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done")
        until((tmp_path / "began").exists)
        started.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        assert ended(process, job_id)["state"] == "DONE"
        assert started.wait(PATIENCE_S) == 0


def test_it_heartbeats_while_it_works(process: Process, command: list[str]) -> None:
    with worker(process, command):
        job_id = add(process, "sleep", str(2 * LEASE_MS / 1000))
        job = ended(process, job_id)
        assert (job["state"], job["run_count"]) == ("DONE", 1)


def test_a_cancel_ends_its_command(process: Process, command: list[str]) -> None:
    with worker(process, command):
        job_id = add(process, "sleep", "60")
        until(lambda: is_running(process, job_id))
        process.call("job.cancel", job_id=job_id)
        assert ended(process, job_id)["state"] == "CANCELLED"


def test_kill_9_of_a_worker_costs_its_job_one_lease_and_no_more(process: Process, command: list[str]) -> None:
    with worker(process, command, "first") as first:
        job_id = add(process, "sleep", "0.5", on_interrupt="requeue")
        until(lambda: is_running(process, job_id))
        first.kill()
        first.wait(PATIENCE_S)
        killed_at = time.time() * 1000
        with worker(process, command, "second"):
            job = ended(process, job_id)
    lost, done = job["runs"]
    assert (lost["status"], lost["error"]["code"], done["status"]) == ("INTERRUPTED", "E_LEASE_LOST", "DONE")
    assert lost["finished_at"] <= killed_at + LEASE_MS + 500
    assert job["attempts"] == 1


def test_it_goes_on_when_the_daemon_is_killed_and_started_again(process: Process, command: list[str]) -> None:
    with worker(process, command):
        job_id = add(process, "sleep", "1")
        until(lambda: is_running(process, job_id))
        process.kill()
        process.start()
        job = ended(process, job_id)
        assert (job["state"], job["run_count"]) == ("DONE", 1)
        assert ended(process, add(process, "true"))["state"] == "DONE"
