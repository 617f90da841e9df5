"""Each run in a cgroup of its own, where there is a cgroup v2 that this user may write to: no process can hide."""

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.crash import process_list
from tests.engine.commands import family
from tests.harness import Process
from tests.homes import migrated_home
from tests.supervisor.families import is_there, until

# Leaves its group, clears its environment and takes back the tag in its resource limits: no mark is left on it.
UNMARK = "__import__('resource').setrlimit(12, __import__('resource').getrlimit(12)[1:] * 2)"
WAIT = "sys.stdout.flush(); time.sleep(600)"
UNMARKED = f"{UNMARK}; print(os.getpid(), hidden()); {WAIT}"


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A cgroup for the tests, which is given to the daemon as daemon.cgroup."""
    mounts = re.findall(r"^\S+ (\S+) cgroup2 ", Path("/proc/self/mounts").read_text(), re.MULTILINE)
    path = Path(mounts[0] if mounts else "/nowhere", f"semantica-test-{uuid.uuid4().hex}")
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"NOT TESTED: runs in cgroups, for want of a writable cgroup v2 ({error.strerror})")
    yield path
    for folder in [*path.iterdir(), path]:
        with suppress(OSError):
            folder.rmdir()


@pytest.fixture(scope="module")
def daemon(root: Path) -> Iterator[Process]:
    with migrated_home() as home:
        (home / "config.toml").write_text(f'[daemon]\nmax_slots = 4\ngrace_ms = 200\ncgroup = "{root}"\n')
        with Process(home).start() as process:
            yield process
            assert process.stop() == 0


def enqueue(daemon: Process, argv: list[str], **spec: Any) -> str:
    return str(daemon.call("job.enqueue", job_type="T", payload={"argv": argv, "cwd": "/"}, **spec)["job_id"])


def first_line(daemon: Process, job_id: str) -> list[int]:
    text = ""
    while "\n" not in text:
        text += daemon.call("job.logs", job_id=job_id, offset=len(text), timeout_ms=10_000)["chunk"]
    return [int(pid) for pid in text.split()]


def ended(daemon: Process, job_id: str) -> Any:
    return daemon.call("job.wait", job_id=job_id)["job"]


def cgroups(root: Path) -> list[str]:
    return [folder.name for folder in root.iterdir() if folder.is_dir() and folder.name != "daemon"]


def test_a_run_is_in_its_own_cgroup_which_is_gone_after_it(daemon: Process, root: Path) -> None:
    job_id = enqueue(daemon, ["sh", "-c", "grep ^0:: /proc/self/cgroup"])
    job = ended(daemon, job_id)
    shown = daemon.call("job.logs", job_id=job_id)["chunk"].strip()
    assert (job["state"], Path(shown).name) == ("DONE", f"run-{job['runs'][0]['run_id']}")
    assert cgroups(root) == []


def test_doctor_shows_that_runs_have_cgroups(daemon: Process, root: Path) -> None:
    command = [sys.executable, "-m", "semantica_daemon.cli", "doctor"]
    shown = subprocess.run(command, env=daemon.environment, capture_output=True, text=True, check=False).stdout
    assert f"each run has a cgroup of its own in {root}" in shown


def test_a_command_that_cannot_be_started_is_reported_as_without_cgroups(daemon: Process, root: Path) -> None:
    for argv, words in ((["no-such-command"], "was not found on the job's PATH"), (["/etc"], "is a directory")):
        job = ended(daemon, enqueue(daemon, argv))
        assert (job["state"], job["error"]["code"]) == ("FAILED", "E_SPAWN")
        assert words in job["error"]["message"]
    assert cgroups(root) == []


def test_environment_arguments_stdin_and_exit_code_are_as_without_cgroups(daemon: Process) -> None:
    payload = {"argv": ["sh", "-c", 'cat; umask; pwd; echo "$A $1"; exit 7', "sh", "x"], "cwd": "/usr", "stdin": "in\n"}
    spec = {"payload": payload | {"umask": 0o027}, "env_vars": {"A": "given"}}
    job = ended(daemon, str(daemon.call("job.enqueue", job_type="T", **spec)["job_id"]))
    assert job["exit_code"] == 7
    assert daemon.call("job.logs", job_id=job["job_id"])["chunk"].split() == ["in", "0027", "/usr", "given", "x"]


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_process_without_any_mark_ends_with_its_run(daemon: Process, how: str) -> None:
    job_id = enqueue(daemon, family(UNMARKED), timeout_ms=3000 if how == "timeout" else None)
    pids = first_line(daemon, job_id)
    if how == "cancel":
        daemon.call("job.cancel", job_id=job_id)
    assert ended(daemon, job_id)["state"] == ("CANCELLED" if how == "cancel" else "FAILED")
    assert not any(map(is_there, pids))


def test_a_process_without_any_mark_does_not_overlap_a_retry_when_the_supervisor_is_killed(
    daemon: Process, root: Path, tmp_path: Path
) -> None:
    note = str(tmp_path / "again")
    second = f"if os.path.exists({note!r}): sys.exit(print(os.path.exists('/proc/' + open({note!r}).read() + '/exe')))"
    job_id = enqueue(daemon, family(f"{second}\n{UNMARKED}"), max_attempts=2, backoff_base_ms=1)
    pids = first_line(daemon, job_id)
    Path(note).write_text(str(pids[1]))
    process_list.kill(process_list.supervisors(daemon.home))
    job = ended(daemon, job_id)
    assert (job["state"], job["run_count"]) == ("DONE", 2)
    assert daemon.call("job.logs", job_id=job_id, run=2)["chunk"] == "False\n", "it was gone when the second run began"
    assert cgroups(root) == []


def test_processes_that_are_kept_may_stay(daemon: Process) -> None:
    job_id = enqueue(daemon, family("print(os.getpid(), child(os.setsid))"), leftovers="keep")
    kept = first_line(daemon, job_id)[1]
    assert ended(daemon, job_id)["state"] == "DONE"
    assert is_there(kept)
    os.kill(kept, signal.SIGKILL)
    until(lambda: not is_there(kept))


def test_the_next_daemon_ends_what_has_no_mark_when_daemon_and_supervisor_are_killed(root: Path) -> None:
    with migrated_home() as home:
        (home / "config.toml").write_text(f'[daemon]\ncgroup = "{root}"\n')
        with Process(home).start() as process:
            assert process.process is not None
            pids = first_line(process, enqueue(process, family(UNMARKED)))
            process_list.kill([*process_list.supervisors(home), process.process.pid])
            process.process.wait()
            process.start()
            assert not any(map(is_there, pids))


def test_a_path_that_is_no_cgroup_is_reported_and_not_used(home: Path) -> None:
    (home / "config.toml").write_text(f'[daemon]\ncgroup = "{home}"\n')
    with Process(home).start() as process:
        found = process.call("admin.health")["parts"]["processes"]
        assert (found["cgroup"], str(home) in found["problem"]) == (None, True)
        assert "cgroup_not_used" in process.stderr()
        assert ended(process, enqueue(process, ["true"]))["state"] == "DONE"


def test_memory_and_cpu_are_limited_by_the_cgroup(daemon: Process) -> None:
    controllers = daemon.call("admin.health")["parts"]["processes"]["controllers"]
    if controllers != ["cpu", "memory"]:
        pytest.skip("NOT TESTED: limits of memory and CPU, for want of a cgroup v2 with both controllers")
    limits = {"memory_bytes": 64_000_000, "cpu_percent": 50}
    show = "cd /sys/fs/cgroup/$(sed -n s/^0:://p /proc/self/cgroup); cat memory.max cpu.max"
    job = ended(daemon, enqueue(daemon, ["sh", "-c", show], limits=limits))
    text = daemon.call("job.logs", job_id=job["job_id"])["chunk"]
    assert [int(word) // 4096 for word in text.split()] == [64_000_000 // 4096, 50_000 // 4096, 100_000 // 4096]
    hungry = family("list(range(100_000_000))")
    assert ended(daemon, enqueue(daemon, hungry, limits=limits))["error"]["code"] == "E_SIGNAL"
