"""Counts the user instructions of a program with valgrind; the count repeats to about one in a million."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2]
# Above these sizes glibc copies and clears by one instruction that valgrind counts once for every byte.
NO_REP = "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824"
COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def installed() -> bool:
    return shutil.which("valgrind") is not None


def environment() -> dict[str, str]:
    """The same for every run, whatever the caller's is."""
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(SCRIPTS),
        "GLIBC_TUNABLES": NO_REP,
    }


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.instructions.{module}", *arguments]


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a program that must not fail."""
    ended = subprocess.run(argv, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{argv} has failed ({ended.returncode}): {ended.stderr[-2000:]}")
    return ended


def count(argv: list[str]) -> int:
    """The user instructions of a program."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    return int(COUNTED.findall(run([*tool, *argv]).stderr)[-1].replace(",", ""))
