"""One real daemon for a whole module, and the real command line as a process beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import Line
from tests.client.callers import two_slots
from tests.harness import Process


@pytest.fixture(scope="module")
def daemon() -> Iterator[Process]:
    with two_slots() as process:
        yield process


@pytest.fixture
def line(daemon: Process, tmp_path: Path) -> Iterator[Line]:
    """`semantica …` in a folder of its own, talking to that daemon.

    Jobs that a failed test leaves running are cancelled: the next test needs their slots."""
    yield Line(daemon.home, tmp_path)
    if running := [job["job_id"] for job in daemon.call("job.list", state=["RUNNING"])["items"]]:
        daemon.call("job.cancel", job_ids=running, wait_ms=5000)
