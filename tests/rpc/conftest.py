"""One daemon for a whole module, where a test leaves nothing behind that the next could notice."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.engine import sample_handlers
from tests.engine.machines import use_fake_sources
from tests.harness import Harness, ManualClock, daemon
from tests.homes import migrated_home


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    with migrated_home() as folder:
        yield folder


@pytest.fixture(scope="module")
async def shared(shared_home: Path) -> AsyncIterator[Harness]:
    """A daemon with two slots, in real time."""
    async with daemon(shared_home, None, "[daemon]\nmax_slots = 2\n") as harness:
        yield harness


@pytest.fixture
async def desk(home: Path) -> AsyncIterator[Harness]:
    """On a manual clock, two slots, with the handlers of the engine's tests and one door, `a`; idle after two minutes,
    and nobody but editors can tell."""
    sample_handlers.doors["a"] = sample_handlers.Door()
    async with daemon(home, ManualClock(), sample_handlers.config()) as harness:
        use_fake_sources(harness, mains=False)
        yield harness
        sample_handlers.doors.pop("a").open.set()
