"""One real daemon for a whole module, and the real command line as a process beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.line import Line
from tests.harness import Process
from tests.homes import migrated_home


@pytest.fixture(scope="module")
def daemon() -> Iterator[Process]:
    """Two slots, a short grace; on a machine that is never idle and always on mains."""
    machine = '[machine]\nidle = "never"\npower = "mains"\n'
    with migrated_home() as folder:
        (folder / "config.toml").write_text(f"[daemon]\nmax_slots = 2\ngrace_ms = 1000\n{machine}")
        with Process(folder) as process:
            yield process.start()


@pytest.fixture
def line(daemon: Process, tmp_path: Path) -> Iterator[Line]:
    """`semantica …` in a folder of its own, talking to that daemon.

    Jobs that a failed test leaves running are cancelled: the next test needs their slots."""
    yield Line(daemon.home, tmp_path)
    if running := [job["job_id"] for job in daemon.call("job.list", state=["RUNNING"])["items"]]:
        daemon.call("job.cancel", job_ids=running, wait_ms=5000)
