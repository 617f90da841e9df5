"""Limits of a run: priority by a system call everywhere; memory and CPU are refused where no cgroup can keep them."""

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.processes import cgroups
from tests.engine.commands import python
from tests.harness import Process, RpcError
from tests.homes import migrated_home

IOPRIO_GET = "{'x86_64': 252, 'aarch64': 31}[os.uname().machine]"
SHOW = python(
    "import ctypes, os, subprocess\n"
    f"own = [os.nice(0), ctypes.CDLL(None).syscall({IOPRIO_GET}, 1, 0) >> 13]\n"
    "print(own, subprocess.run(['nice'], capture_output=True, text=True).stdout)"
)
BEST_EFFORT, IDLE = 2, 3


@pytest.fixture(scope="module")
def daemon() -> Iterator[Process]:
    with migrated_home() as home, Process(home).start() as process:
        yield process


def run(daemon: Process, **spec: Any) -> Any:
    ack = daemon.call("job.enqueue", job_type="T", payload={"argv": SHOW, "cwd": "/"}, **spec)
    return daemon.call("job.wait", job_id=ack["job_id"])["job"]


@pytest.mark.parametrize(("nice", "io_class"), [(7, BEST_EFFORT), (19, IDLE)])
def test_nice_lowers_the_priority_of_the_command_and_its_children(daemon: Process, nice: int, io_class: int) -> None:
    job = run(daemon, limits={"nice": nice})
    assert (job["state"], job["limits"]) == ("DONE", {"nice": nice})
    text = daemon.call("job.logs", job_id=job["job_id"])["chunk"]
    assert text.split("]")[0] + "]" == f"[{max(nice, os.nice(0))}, {io_class}]"
    assert text.split("]")[1].strip() == str(max(nice, os.nice(0))), "of its child"


def test_without_limits_nothing_is_changed(daemon: Process) -> None:
    job = run(daemon)
    assert job["limits"] is None
    assert daemon.call("job.logs", job_id=job["job_id"])["chunk"].startswith(f"[{os.nice(0)}, ")


@pytest.mark.parametrize(
    ("limits", "code", "path"),
    [
        ({"memory_bytes": 2**30}, "E_NOT_SUPPORTED", "$.limits.memory_bytes"),
        ({"cpu_percent": 50}, "E_NOT_SUPPORTED", "$.limits.cpu_percent"),
        ({"memory_bytes": 1}, "E_PARAMS", "$.limits.memory_bytes"),
        ({"nice": -1}, "E_PARAMS", "$.limits.nice"),
        ({"nice": 20}, "E_PARAMS", "$.limits.nice"),
        ({"colour": 1}, "E_PARAMS", "$.limits.colour"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused(daemon: Process, limits: Any, code: str, path: str) -> None:
    with pytest.raises(RpcError) as refused:
        run(daemon, limits=limits)
    assert (refused.value.data["code"], refused.value.data["path"]) == (code, path)


def test_a_handler_cannot_be_limited(daemon: Process) -> None:
    with pytest.raises(RpcError) as refused:
        daemon.call("job.enqueue", job_type="semantica.noop", limits={"nice": 5})
    assert refused.value.data["path"] == "$.limits"


def test_a_limit_that_was_accepted_is_never_ignored_by_a_later_daemon(home: Path) -> None:
    """The daemon before had cgroups, this one has none."""
    with Process(home).start() as process:
        process.call("queue.pause")
        payload = {"argv": ["touch", str(home / "ran")], "cwd": "/"}
        job_id = process.call("job.enqueue", job_type="T", payload=payload, limits={"nice": 1})["job_id"]
        with sqlite3.connect(home / "meta.db") as connection:
            spec = json.dumps({"limits": {"memory_bytes": 2**30}})
            connection.execute("UPDATE jobs SET spec = ? WHERE id = ?", (spec, job_id))
        connection.close()
        process.call("queue.resume")
        job = process.call("job.wait", job_id=job_id)["job"]
        assert (job["state"], job["error"]["code"]) == ("FAILED", "E_SPAWN")
        assert "not run without its limits" in job["error"]["message"]
        assert not (home / "ran").exists()


def test_memory_and_cpu_are_written_in_the_words_of_the_kernel(tmp_path: Path) -> None:
    """Into a plain folder: `tests/crash/test_cgroups` needs a cgroup with both controllers for the real thing."""
    cgroups.limit(str(tmp_path), 64_000_000, 150)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "memory.max": "64000000", "cpu.max": "150000 100000",
    }  # fmt: skip
