"""One command for each of many items: `semantica map` beside GNU parallel and xargs, and how fast items are taken."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.processes import Daemon
from benchmarks.results import Figure, Result, shown

NAMES = ("map", "intake")
SLOTS = 2
QUEUE = "default"
COMMAND = "/bin/true"
PACKAGES = {"parallel": "parallel", "xargs": "findutils"}
# The first word of GNU parallel's version: moreutils has another program of that name.
IS_GNU = "parallel --version 2> /dev/null | grep -q '^GNU parallel'"
LINES = {
    "map": "seq {count} | {semantica} map -q -- {command}",
    "parallel": "seq {count} | parallel --will-cite -j{slots} {command}",
    "xargs": "seq {count} | xargs -P{slots} -n1 {command}",
}
Log = Callable[[str], None]


def map_items(home: Path, repeats: int, count: int, log: Log) -> Iterator[Result]:
    """One row for each other tool; all of them take turns. A tool that is not installed is left out, with a word."""
    home.mkdir(mode=0o700)
    found = [tool for tool in PACKAGES if _is_installed(tool)]
    for tool in PACKAGES.keys() - set(found):
        log(f"map: {tool} is left out, because it is not installed (apt install {PACKAGES[tool]})")
    taken: dict[str, list[float]] = {name: [] for name in ("map", *found)}
    daemon = Daemon(home / "d", SLOTS)
    try:
        daemon.start()
        for number in range(repeats):
            for name, samples in taken.items():
                samples.append(count / _seconds(LINES[name], home, daemon, count))
            log(f"map {number + 1}/{repeats}: " + "  ".join(f"{n} {shown(s[-1], '/s')}" for n, s in taken.items()))
    finally:
        daemon.end()
    for tool in found:
        what = f"semantica map of {count:,} × {COMMAND}, {SLOTS} at once; {tool}"
        yield Figure(f"map-{tool}", what, "/s", None).result(taken["map"], taken[tool])


def intake(home: Path, repeats: int, count: int, log: Log) -> Iterator[Result]:
    """How many items a second are taken while none is run, until the last is in the queue."""
    home.mkdir(mode=0o700)
    samples: list[float] = []
    daemon = Daemon(home / "d", SLOTS)
    try:
        daemon.start()
        daemon.call("queue.configure", queue=QUEUE, slots=0, max_queued=10_000_000)
        for number in range(repeats):
            samples.append(count / _taken_within(home, daemon, count, number))
            log(f"intake {number + 1}/{repeats}: {shown(samples[-1], '/s')}")
    finally:
        daemon.end()
    yield Figure("intake", f"items a second that semantica map takes, of {count:,}", "/s", None).result(samples, None)


def _taken_within(home: Path, daemon: Daemon, count: int, number: int) -> float:
    wanted = daemon.counts(QUEUE)["queued"] + count
    (home / "items").write_text("".join(f"{item}\n" for item in range(count)))
    words = [*_installed().split(), "map", "-q", "--name", f"n{number}", "-a", "items", "--", COMMAND]
    start = time.monotonic()
    process = subprocess.Popen(words, cwd=home, env=daemon.env, stdin=subprocess.DEVNULL)
    while daemon.counts(QUEUE)["queued"] < wanted:
        if process.poll() is not None:
            raise RuntimeError(f"semantica map ended with {process.returncode}")
        time.sleep(0.01)
    taken = time.monotonic() - start
    process.terminate()
    process.wait()
    return taken


def _seconds(line: str, home: Path, daemon: Daemon, count: int) -> float:
    words = line.format(count=count, semantica=_installed(), command=COMMAND, slots=SLOTS)
    start = time.monotonic()
    subprocess.run(["sh", "-ec", words], cwd=home, env=daemon.env, stdin=subprocess.DEVNULL, check=True, timeout=1800)
    return time.monotonic() - start


def _is_installed(tool: str) -> bool:
    if shutil.which(tool) is None:
        return False
    return tool != "parallel" or os.system(IS_GNU) == 0


def _installed() -> str:
    """The program beside this interpreter, as a user has it."""
    program = Path(sys.executable).with_name("semantica")
    return str(program) if program.exists() else f"{sys.executable} -m semantica_daemon.cli"
