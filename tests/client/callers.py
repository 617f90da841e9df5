"""Clients as processes of their own, made ready and let go at one instant; and the daemons of a home, from /proc."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness import Process
from tests.homes import migrated_home

CALLER = """
import json, os, socket, struct, sys
from semantica_daemon import paths
from semantica_daemon.client.connect import connect_or_start
from semantica_daemon.client.errors import NoDaemon
reports = []
print("set", flush=True)
start = sys.stdin.readline() != "only if it runs\\n"
try:
    with connect_or_start(paths.find(os.environ), start=start, report=reports.append) as connection:
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    result = {"pid": struct.unpack("3i", found)[0]}
except NoDaemon as failed:
    result = {"code": failed.exit_code, "message": failed.message}
print(json.dumps({"reports": reports, **result}), flush=True)
"""


class Caller:
    def __init__(self, cwd: Path, **env: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SEMANTICA_")}
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", CALLER]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=cwd, env=clean | env, text=True)

    def set(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "set\n"

    def go(self, start: bool) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n" if start else "only if it runs\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        """What has come of it: the daemon's pid, or code and message; and what was reported on the way."""
        out, _ = self._process.communicate(timeout=50)
        return json.loads(out)


def ready(number: int, cwd: Path, **env: str) -> list[Caller]:
    """So many, with all behind them that takes time."""
    made = [Caller(cwd, **env) for _ in range(number)]
    for one in made:
        one.set()
    return made


def let_go(made: list[Caller], start: bool = True) -> list[Any]:
    """All at the same instant."""
    for one in made:
        one.go(start)
    return [one.result() for one in made]


def daemons(home: Path) -> list[int]:
    """The pids of all that were started for this home ($SEMANTICA_HOME, or $HOME), ready or not."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            theirs = (folder / "environ").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if b"semantica_daemon" in words and any(one.endswith(b"HOME=%b" % os.fsencode(home)) for one in theirs):
            found.append(int(folder.name))
    return sorted(found)


def environment(pid: int) -> dict[str, str]:
    words = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(word.split("=", 1) for word in words if word)


@contextmanager
def two_slots() -> Iterator[Process]:
    """A daemon with two slots and a short grace period, on a machine that is never idle and always on mains power."""
    machine = '[machine]\nidle = "never"\npower = "mains"\n'
    with migrated_home() as folder:
        (folder / "config.toml").write_text(f"[daemon]\nmax_slots = 2\ngrace_ms = 1000\n{machine}")
        with Process(folder) as process:
            yield process.start()


@contextmanager
def no_daemon_left(home: Path) -> Iterator[None]:
    try:
        yield
    finally:
        for pid in daemons(home):
            os.kill(pid, 9)
