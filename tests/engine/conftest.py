"""Daemons in this process that have the handlers of `deeds`, and doors that are open again when a test is over."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.engine import deeds
from tests.engine.deeds import Door
from tests.engine.machines import IDLE_MS
from tests.harness import Harness, ManualClock, daemon


@pytest.fixture
def door() -> Iterator[Callable[[str], Door]]:
    """Makes doors by name. All are opened at the end: a thread that waits for one would keep pytest alive."""
    made: list[Door] = []

    def make(name: str) -> Door:
        deeds.doors[name] = Door()
        made.append(deeds.doors[name])
        return deeds.doors[name]

    yield make
    for one in made:
        one.open.set()
    deeds.doors.clear()


@pytest.fixture
async def working(home: Path, door: Callable[[str], Door]) -> AsyncIterator[Harness]:
    """In real time, two slots, with the handlers; doors are opened before it is stopped."""
    async with daemon(home, None, deeds.config()) as harness:
        yield harness
        _open_all()


@pytest.fixture
async def timed(home: Path, door: Callable[[str], Door]) -> AsyncIterator[Harness]:
    """On a manual clock, two slots, with the handlers."""
    async with daemon(home, ManualClock(), deeds.config()) as harness:
        yield harness
        _open_all()


@pytest.fixture
async def desk(home: Path, door: Callable[[str], Door]) -> AsyncIterator[Harness]:
    """On a manual clock, two slots, with the handlers; idle after twenty seconds."""
    async with daemon(home, ManualClock(), deeds.config(more=f"[machine]\nidle_ms = {IDLE_MS}\n")) as harness:
        yield harness
        _open_all()


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[Harness]:
    """In real time, four slots, no handlers but the built-in: one for all commands of a module."""
    home = Path(tempfile.mkdtemp(prefix="sem-"))
    async with daemon(home, None, "[daemon]\nmax_slots = 4\n") as harness:
        yield harness
    shutil.rmtree(home, ignore_errors=True)


def _open_all() -> None:
    for one in deeds.doors.values():
        one.open.set()
