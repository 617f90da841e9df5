"""`workers`, `add --external` and what `why`, `show`, `list` and `plan` print of jobs for external workers."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.command_line import Line
from tests.harness import Process


@pytest.fixture
def worker_id(daemon: Process) -> Iterator[str]:
    worker_id = daemon.call("worker.register", name="w", pid=17)["worker_id"]
    yield worker_id
    daemon.call("worker.leave", worker_id=worker_id)
    daemon.call("job.cancel", queue="default")


def claim(daemon: Process, worker_id: str, **wanted: Any) -> Any:
    (claimed,) = daemon.call("worker.claim", worker_id=worker_id, wait_ms=0, **wanted)["jobs"]
    return claimed


def test_workers_lists_who_is_alive_and_what_each_runs(line: Line, daemon: Process, worker_id: str) -> None:
    job_id = line("add", "--external", "--type", "resize").out.strip()
    claimed = claim(daemon, worker_id, job_types=["resize"])
    header, row = line("workers").out.splitlines()
    assert header.split() == ["NAME", "ID", "ALIVE", "RUNNING", "DONE", "FAILED", "HEARTBEAT", "PID", "QUEUES", "TYPES"]
    assert row.split() == ["w", worker_id[:8], "yes", job_id[:8], "0", "0", "0s", "ago", "17", "all", "resize"]
    daemon.call("worker.complete", worker_id=worker_id, run_id=claimed["run_id"])
    assert line("workers").out.splitlines()[1].split()[3:6] == ["-", "1", "0"]
    assert line("workers", "-q").out == f"{worker_id}\n"
    assert line("workers", "--json").json == daemon.call("worker.list")


def test_workers_that_have_left_are_listed_with_all(line: Line, daemon: Process) -> None:
    gone = daemon.call("worker.register", name="gone")["worker_id"]
    daemon.call("worker.leave", worker_id=gone)
    result = line("workers")
    assert result == (0, "", "semantica: no worker is alive; --all lists those of the last day\n")
    assert f"gone  {gone[:8]}  left " in line("workers", "--all").out


def test_why_knows_that_there_is_no_worker_for_a_job(line: Line, daemon: Process, worker_id: str) -> None:
    daemon.call("worker.claim", worker_id=worker_id, wait_ms=0, job_types=["other"])
    job_id = line("add", "--external", "--type", "resize").out.strip()
    assert line("why", "@last").out == (
        f"job {job_id[:8]}: waiting: no worker for it: none that is alive takes resize jobs of queue default\n"
    )
    assert "no worker for it" in line("list", "--state", "queued").out
    line("queue", "pause", "default")
    daemon.call("worker.claim", worker_id=worker_id, wait_ms=0)
    assert "it waits for the worker that may claim it" in line("why", "@last").out
    line("queue", "resume", "default")


def test_a_command_for_a_worker_has_its_folder_and_no_environment(line: Line, daemon: Process, worker_id: str) -> None:
    line("add", "--external", "--env", "A=1", "--", "make", "test", A_PRIVATE_THING="x")
    claimed = claim(daemon, worker_id)
    assert claimed["job"]["payload"]["argv"] == ["make", "test"]
    assert claimed["job"]["payload"]["cwd"] == str(line.cwd)
    assert claimed["env_vars"] == {"A": "1"}
    assert line("show", "--json", "@last").json["environment"] is None
    shown = line("show", "@last").out
    assert "make test" in shown
    assert worker_id[:8] in shown
    assert "make test" in line("list", "--state", "running").out


def test_run_waits_for_a_worker_and_returns_the_exit_code(line: Line, daemon: Process, worker_id: str) -> None:
    started = line.start("run", "--external", "--", "false")
    (claimed,) = daemon.call("worker.claim", worker_id=worker_id, wait_ms=40_000)["jobs"]
    daemon.call("worker.fail", worker_id=worker_id, run_id=claimed["run_id"], message="no", exit_code=7)
    assert started.result().code == 7


def test_a_payload_for_a_worker_needs_a_type(line: Line, daemon: Process, worker_id: str) -> None:
    assert line("add", "--external", "--payload", "{}").code == 64
    line("add", "--external", "--type", "t", "--payload", '{"n": 1}', "--env", "A=1")
    claimed = claim(daemon, worker_id)
    assert (claimed["job"]["payload"], claimed["env_vars"]) == ({"n": 1}, {"A": "1"})
    assert line("add", "--external", "--type", "t", "--cwd", "/").code == 64


def test_plan_says_that_a_worker_starts_it(line: Line) -> None:
    result = line("plan", "--external", "--type", "t")
    assert "when a worker claims it" in result.out
