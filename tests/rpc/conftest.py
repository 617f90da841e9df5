"""One daemon for a whole module, where a test leaves nothing behind that the next could notice."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.engine import deeds
from tests.engine.machines import told
from tests.harness import Harness, ManualClock, daemon


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sem-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
async def shared(shared_home: Path) -> AsyncIterator[Harness]:
    """A daemon with two slots, in real time."""
    async with daemon(shared_home, None, "[daemon]\nmax_slots = 2\n") as harness:
        yield harness


@pytest.fixture
async def desk(home: Path) -> AsyncIterator[Harness]:
    """On a manual clock, two slots, with the handlers of the engine's tests and one door, `a`; idle after two minutes,
    and nobody but editors can tell."""
    deeds.doors["a"] = deeds.Door()
    async with daemon(home, ManualClock(), deeds.config()) as harness:
        told(harness, mains=False)
        yield harness
        deeds.doors.pop("a").open.set()
