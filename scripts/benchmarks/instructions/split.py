"""Where the instructions of a figure go: by library and by C function, read from callgrind's output."""

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from benchmarks.instructions import valgrind

NAME = re.compile(r"(ob|fn|cob|cfn)=\((\d+)\)(?: (.*))?")
COST = re.compile(r"(?:[+-]?\d+|\*) (\d+)")
SHOWN = 25

Where = tuple[str, str]


def count(argv: list[str]) -> "Counter[Where]":
    """Instructions of a program by (library, function), without those of the functions it calls."""
    with tempfile.TemporaryDirectory(prefix="si-") as folder:
        out = Path(folder) / "out"
        valgrind.run(["valgrind", "--vgdb=no", "--tool=callgrind", f"--callgrind-out-file={out}", *argv])
        found: Counter[Where] = Counter()
        with out.open() as lines:
            for where, cost in _own_costs(lines):
                found[where] += cost
        return found


def _own_costs(lines: TextIO) -> Iterator[tuple[Where, int]]:
    """The line after `calls=` is the cost of a call, which the called function has too."""
    names: dict[tuple[str, str], str] = {}
    now = {"ob": "", "fn": ""}
    skip = False
    for line in lines:
        if line.startswith("calls="):
            skip = True
        elif name := NAME.match(line):
            kind, number, text = name.groups()
            key = (kind[-2:], number)
            names.setdefault(key, text or "")
            now |= {kind: names[key]} if kind in now else {}
        elif cost := COST.match(line):
            if not skip:
                yield (Path(now["ob"]).name, now["fn"]), int(cost[1])
            skip = False


def text(found: dict[Where, float]) -> str:
    libraries: Counter[str] = Counter()
    for (library, _), value in found.items():
        libraries[library] += round(value)
    lines = [f"{value:12,}  {library}" for library, value in libraries.most_common(8)]
    largest = sorted(found.items(), key=lambda item: -item[1])[:SHOWN]
    lines += [f"{value:12,.0f}  {library}: {function}" for (library, function), value in largest]
    return "\n".join(lines) + "\n"
