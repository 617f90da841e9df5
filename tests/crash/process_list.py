"""Finds the processes of a daemon in /proc: its supervisor and its runs. Uses none of the daemon's code."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.crash.invariants import reading

ENDED_RUNS = "SELECT run_id FROM runs WHERE status <> 'RUNNING'"


class Found(NamedTuple):
    pid: int
    run_id: str
    job_id: str


def environment_of(pid: int) -> dict[bytes, bytes]:
    """Empty when it is gone, is a zombie, or is another's."""
    with suppress(OSError):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return {name: value for name, _, value in (one.partition(b"=") for one in variables)}
    return {}


def everybody(wanted: Callable[[dict[bytes, bytes]], bool]) -> dict[int, dict[bytes, bytes]]:
    found = {int(name): environment_of(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: environment for pid, environment in found.items() if wanted(environment)}


def processes(home: Path) -> list[Found]:
    """Of its runs; whoever has emptied its environment is not seen."""
    socket = os.fsencode(home / "daemon.sock")
    found = everybody(lambda one: one.get(b"SEMANTICA_SOCKET") == socket and b"SEMANTICA_RUN_ID" in one)
    ids = (b"SEMANTICA_RUN_ID", b"SEMANTICA_JOB_ID")
    return [Found(pid, *(one[name].decode() for name in ids)) for pid, one in found.items()]


def supervisors(home: Path) -> list[int]:
    lock = os.fsencode(home / "supervisor.lock")
    return list(everybody(lambda one: one.get(b"SEMANTICA_SUPERVISOR") == lock))


def kill(pids: list[int], number: signal.Signals = signal.SIGKILL) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def check(home: Path) -> None:
    """No process of a run that was over before we looked."""
    with reading(home) as connection:
        over = {row[0] for row in connection.execute(ENDED_RUNS)}
    left = [found for found in processes(home) if found.run_id in over]
    assert not left, f"their runs are over, and they go on: {left}"


def check_empty(home: Path) -> None:
    """The daemon is gone, and what was its own goes at once: its supervisor sees to that, and then leaves."""
    give_up = time.monotonic() + 20
    while left := [*processes(home), *supervisors(home)]:
        assert time.monotonic() < give_up, f"{left}\n{(home / 'stderr.log').read_text()[-2000:]}"
        time.sleep(0.005)
