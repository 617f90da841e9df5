"""Fixtures: one backend, a short home (socket paths are at most 107 bytes), and a daemon on a manual clock."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.harness import Harness, ManualClock, daemon


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sem-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def manual(home: Path) -> AsyncIterator[Harness]:
    """A daemon with two slots whose clock only moves by `advance`."""
    async with daemon(home, ManualClock(), "[daemon]\nmax_slots = 2\n") as harness:
        yield harness


@pytest.fixture
async def real(home: Path) -> AsyncIterator[Harness]:
    """A daemon with two slots, in real time."""
    async with daemon(home, None, "[daemon]\nmax_slots = 2\n") as harness:
        yield harness
