"""The budget file: what each figure was when it was recorded, by versions of Python and SQLite."""

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent.parent / "budgets.json"
TOLERANCE = 1.02
EVERYWHERE = "any"  # frames and statements do not depend on versions


def versions() -> str:
    python, sqlite = sys.version_info[:2], sqlite3.sqlite_version_info[:2]
    return f"python{python[0]}.{python[1]}-sqlite{sqlite[0]}.{sqlite[1]}"


def build() -> str:
    """Two builds of the same versions execute different instructions: another compiler, other options."""
    (source,) = sqlite3.connect(":memory:").execute("SELECT sqlite_source_id()").fetchone()
    return f"{sys.version} SQLite {source}".replace("\n", "")


class Budgets:
    def __init__(self) -> None:
        self._all: dict[str, dict[str, Any]] = json.loads(FILE.read_text())

    def of(self, figure: str) -> float | None:
        """None when there is no budget for this figure, these versions and this build."""
        instructions = self._all.get(versions(), {})
        if instructions.get("build") != build():
            instructions = {}
        found: float | None = self._all[EVERYWHERE].get(figure, instructions.get(figure))
        return found

    def is_over(self, figure: str, value: float) -> bool:
        budget = self.of(figure)
        return budget is not None and value > budget * (1 if figure in self._all[EVERYWHERE] else TOLERANCE)

    def record(self, found: dict[str, float]) -> None:
        """What was recorded by another build of these versions is dropped."""
        mine = self._all.get(versions(), {})
        self._all[versions()] = mine if mine.get("build") == build() else {"build": build()}
        for figure, value in found.items():
            which = EVERYWHERE if figure.startswith(("frames", "statements")) else versions()
            self._all[which][figure] = round(value)
        FILE.write_text(json.dumps(self._all, indent=2) + "\n")
