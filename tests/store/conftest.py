"""A store on a real file, checked against the invariants when its test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from semantica_daemon.model.queue import QueueRules
from tests.builders import Store
from tests.store import invariants

QUEUES = {"one": QueueRules(slots=1), "none": QueueRules(slots=0), "small": QueueRules(max_queued=2)}


@pytest.fixture
def forged(tmp_path: Path) -> Iterator[Store]:
    """Two slots, and queues `one` (1 slot), `none` (0) and `small` (2 waiting); the test may change rows itself."""
    store = Store(tmp_path / "meta.db", slots=2, queues=QUEUES)
    yield store
    store.close()


@pytest.fixture
def store(forged: Store) -> Iterator[Store]:
    yield forged
    invariants.check(forged)
