"""Counts the user instructions of a program with valgrind; the count repeats to about one in a million."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2]
COUNTER = ["valgrind", "--vgdb=no", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")
# Above these sizes glibc copies and clears by one instruction that valgrind counts once for every byte.
NO_REP = "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824"


def installed() -> bool:
    return shutil.which("valgrind") is not None


def environment() -> dict[str, str]:
    """The same for every run, whatever the caller's is."""
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": f"{SCRIPTS}:{SCRIPTS.parent}",  # this checkout, whatever is installed
        "GLIBC_TUNABLES": NO_REP,
    }


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.instructions.{module}", *arguments]


def run(argv: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that must not fail."""
    env = {**environment(), **variables}
    ended = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{argv} has failed ({ended.returncode}): {ended.stderr[-2000:]}")
    return ended


def count(argv: list[str], **variables: str) -> int:
    """The user instructions of a program, without those of the programs it starts."""
    return counts(argv, **variables)[-1]


def counts(argv: list[str], **variables: str) -> list[int]:
    """Those of each process that the program forks, each with what its parent had executed before; its own last."""
    return [number(text) for text in COUNTED.findall(run([*COUNTER, *argv], **variables).stderr)]


def number(text: str) -> int:
    return int(text.replace(",", ""))
