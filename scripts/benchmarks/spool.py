"""Many short commands from the shell until the last one has ended: `semantica add` beside tsp, nq and xargs."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import all_done
from benchmarks.processes import Daemon
from benchmarks.results import Figure, Result, shown

NAMES = ("spool",)
SLOTS = 2
QUEUE = "default"
SEMANTICA = f"{sys.executable} -m semantica_daemon.cli"
LOOP = "for number in $(seq {count}); do {command} sh -c echo > out; done"
PACKAGES = {"tsp": "task-spooler", "nq": "nq", "xargs": "findutils"}
Log = Callable[[str], None]


def spool(home: Path, repeats: int, count: int, log: Log) -> Iterator[Result]:
    """One row for each other tool; all of them take turns. A tool that is not installed is left out, with a word."""
    home.mkdir(mode=0o700)
    found = [tool for tool in PACKAGES if shutil.which(tool) is not None]
    for tool in PACKAGES.keys() - set(found):
        log(f"spool: {tool} is left out, because it is not installed (apt install {PACKAGES[tool]})")
    taken: dict[str, list[float]] = {name: [] for name in ("add", "each", *found)}
    daemon = Daemon(home / "d", SLOTS)
    try:
        daemon.start()
        for number in range(repeats):
            for name, samples in taken.items():
                folder = home / f"{name}{number}"
                folder.mkdir()
                samples.append(SECONDS[name](daemon, folder, count))
            log(f"spool {number + 1}/{repeats}: " + "  ".join(f"{n} {shown(s[-1], 's')}" for n, s in taken.items()))
    finally:
        daemon.end()
    for tool in found:
        what = f"{count} × semantica add -- sh -c echo; {tool}"
        yield Figure(f"spool-{tool}", what, "s", None).result(taken["add"], taken[tool])
    yield Figure("spool-each", f"semantica add --each of {count}; xargs", "s", None).result(
        taken["each"], taken.get("xargs")
    )


def _add(daemon: Daemon, folder: Path, count: int) -> float:
    return _until_done(daemon, folder, LOOP.format(count=count, command=f"{_installed()} add --"), count)


def _each(daemon: Daemon, folder: Path, count: int) -> float:
    line = f"seq {count} | {_installed()} add --each -q -- sh -c echo {{}} > out"
    return _until_done(daemon, folder, line, count)


def _until_done(daemon: Daemon, folder: Path, line: str, count: int) -> float:
    wanted = daemon.counts(QUEUE)["done"] + count
    start = time.monotonic()
    _shell(line, folder, daemon.env)
    return all_done(daemon, QUEUE, wanted) - start


def _tsp(_: Daemon, folder: Path, count: int) -> float:
    """Its server, its socket and its output files are in the folder."""
    env = {**os.environ, "TMPDIR": str(folder), "TS_SOCKET": str(folder / "s")}
    _shell(f"tsp -S {SLOTS}", folder, env)
    taken = _shell(LOOP.format(count=count, command="tsp") + "; tsp -w", folder, env)
    _shell("tsp -K", folder, env)
    return taken


def _nq(_: Daemon, folder: Path, count: int) -> float:
    """It runs one command at a time."""
    return _shell(LOOP.format(count=count, command="nq") + "; nq -w", folder, {**os.environ, "NQDIR": str(folder)})


def _xargs(_: Daemon, folder: Path, count: int) -> float:
    return _shell(f"seq {count} | xargs -P{SLOTS} -I{{}} sh -c echo {{}} > out", folder, dict(os.environ))


def _shell(line: str, folder: Path, env: dict[str, str]) -> float:
    """How long it takes, in seconds. The short-lived files go into the folder."""
    start = time.monotonic()
    subprocess.run(["sh", "-ec", line], cwd=folder, env=env, stdin=subprocess.DEVNULL, check=True, timeout=600)
    return time.monotonic() - start


def _installed() -> str:
    """The program beside this interpreter, as a user has it."""
    program = Path(sys.executable).with_name("semantica")
    return str(program) if program.exists() else SEMANTICA


SECONDS = {"add": _add, "each": _each, "tsp": _tsp, "nq": _nq, "xargs": _xargs}
