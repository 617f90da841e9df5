"""A run whose reader is behind is paused, and goes on when the reader has read, is gone, or makes no progress."""

import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from semantica_daemon.supervisor.file_limit import FileLimit
from semantica_daemon.supervisor.log import MOST_UNREAD
from semantica_daemon.supervisor.messages import NO_READER, ReadRequest, SpawnRequest
from semantica_daemon.supervisor.pauses import Pauses
from semantica_daemon.supervisor.run import Run
from tests.supervisor.families import end

LIMIT = 10_000


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Run]:
    """A run with more unread output than its log keeps."""
    run = Run(
        SpawnRequest(
            run_id="r", argv=["sleep", "60"], cwd="/", env={b"PATH": b"/usr/bin:/bin"}, umask=0o022, stdin=None,
            workspace=str(tmp_path), output=str(tmp_path / "output"), result=str(tmp_path / "result.json"),
            log=str(tmp_path / "job.log"), log_bytes=LIMIT, keep_leftovers=False, is_followed=True,
            has_input=False, window=None,
        ), 0, FileLimit(1024),
    )  # fmt: skip
    run.log.write(0, bytes(LIMIT + MOST_UNREAD + 1))
    yield run
    end(run.pid)
    run.close_pipes()


@pytest.fixture
def pauses(followed: Run) -> Pauses:
    poll = select.poll()
    for pipe in followed.pipes:
        poll.register(pipe, select.POLLIN)
    begun = Pauses(poll)
    begun.begin(followed)
    return begun


def test_it_waits_while_nothing_is_read(followed: Run, pauses: Pauses) -> None:
    assert followed.log.must_wait
    pauses.note_reader(followed, ReadRequest("r", 1, 0))
    assert pauses
    assert 9000 < (pauses.end_late(None) or 0) <= 10_001


@pytest.mark.parametrize("offset", [MOST_UNREAD, NO_READER])
def test_it_goes_on_when_the_reader_has_read_or_is_gone(followed: Run, pauses: Pauses, offset: int) -> None:
    pauses.note_reader(followed, ReadRequest("r", 1, offset))
    assert (bool(pauses.until), followed.log.must_wait) == (False, False)


def test_a_reader_that_makes_no_progress_is_given_up(followed: Run, pauses: Pauses) -> None:
    pauses.note_reader(followed, ReadRequest("r", 1, 0))
    pauses.until[followed] = 0
    assert (pauses.end_late(None), bool(pauses.until), followed.log.must_wait) == (None, False, False)
    assert followed.log.dropped > MOST_UNREAD
