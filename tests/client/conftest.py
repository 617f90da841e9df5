"""One real daemon for a whole module."""

from collections.abc import Iterator

import pytest

from tests.client.callers import two_slots
from tests.harness import Process


@pytest.fixture(scope="module")
def daemon() -> Iterator[Process]:
    with two_slots() as process:
        yield process
