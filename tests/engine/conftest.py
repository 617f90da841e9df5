"""Daemons in this process with the handlers of `sample_handlers`; every door is opened when its test is over."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.engine import sample_handlers
from tests.engine.machines import IDLE_MS
from tests.engine.sample_handlers import Door
from tests.harness import Harness, ManualClock, daemon
from tests.homes import migrated_home


@pytest.fixture
def door() -> Iterator[Callable[[str], Door]]:
    """Makes doors by name. All are opened at the end: a thread that waits for one would keep pytest alive."""
    made: list[Door] = []

    def make(name: str) -> Door:
        sample_handlers.doors[name] = Door()
        made.append(sample_handlers.doors[name])
        return sample_handlers.doors[name]

    yield make
    for one in made:
        one.open.set()
    sample_handlers.doors.clear()


@pytest.fixture
async def working(home: Path, door: Callable[[str], Door]) -> AsyncIterator[Harness]:
    """In real time, two slots, with the handlers; doors are opened before it is stopped."""
    async with daemon(home, None, sample_handlers.config()) as harness:
        yield harness
        _open_all()


@pytest.fixture
async def timed(home: Path, door: Callable[[str], Door]) -> AsyncIterator[Harness]:
    """On a manual clock, two slots, with the handlers."""
    async with daemon(home, ManualClock(), sample_handlers.config()) as harness:
        yield harness
        _open_all()


@pytest.fixture
async def desk(home: Path, door: Callable[[str], Door]) -> AsyncIterator[Harness]:
    """On a manual clock, two slots, with the handlers; idle after twenty seconds."""
    async with daemon(home, ManualClock(), sample_handlers.config(more=f"[machine]\nidle_ms = {IDLE_MS}\n")) as harness:
        yield harness
        _open_all()


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[Harness]:
    """In real time, four slots, no handlers but the built-in: one for all commands of a module."""
    with migrated_home() as home:
        async with daemon(home, None, "[daemon]\nmax_slots = 4\n") as harness:
            yield harness


def _open_all() -> None:
    for one in sample_handlers.doors.values():
        one.open.set()
