"""`scripts/bench --instructions`: measures the chosen figures and prints one line for each."""

import sys
from collections.abc import Callable

from benchmarks.instructions import figures, valgrind
from benchmarks.instructions.figures import Found

GROUPS: dict[str, Callable[[], Found]] = {"store": figures.store, "commits": figures.commits}
NEEDS_VALGRIND = {"store"}


def main(only: list[str]) -> int:
    for name in only or GROUPS:
        if name in NEEDS_VALGRIND and not valgrind.installed():
            sys.stdout.write(f"{name}: NOT TESTED, valgrind is not installed\n")
            continue
        for figure, value in GROUPS[name]().items():
            sys.stdout.write(f"{name} {figure:20} {value:12,.0f}\n")
        sys.stdout.flush()
    return 0
