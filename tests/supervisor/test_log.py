"""The log of a run: what comes is kept as it comes, up to a limit, with the stream it came from; nothing raises."""

import os
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from semantica_daemon.supervisor.log import STDERR, STDOUT, Log
from semantica_daemon.supervisor.messages import STREAMS_SUFFIX, TAIL_SUFFIX

RECORD = 8


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job.log"


def log_of(path: Path, limit: int = 1000) -> Log:
    return Log(str(path), limit)


def tail(path: Path) -> list[tuple[int, bytes]]:
    """(offset, bytes) of each file of the end."""
    folder = Path(str(path) + TAIL_SUFFIX)
    return [(int(file.name), file.read_bytes()) for file in sorted(folder.glob("*[0-9]"))]


def kept(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.rglob("*") if file.is_file())


def streams(path: Path) -> list[tuple[int, int]]:
    """(offset, stream) of each change."""
    kept = Path(str(path) + STREAMS_SUFFIX).read_bytes()
    return [divmod(number, 2) for (number,) in struct.iter_unpack("<Q", kept)]


def test_a_run_that_says_nothing_leaves_no_file(path: Path) -> None:
    log_of(path).close()
    assert list(path.parent.iterdir()) == []


def test_pieces_are_there_as_soon_as_they_are_written(path: Path) -> None:
    log = log_of(path)
    for piece in (b"one", b"", b"\xff\x00", b"three\n"):
        log.write(STDOUT, piece)
        assert path.read_bytes()[-len(piece) :] == piece or not piece
        assert log.size == path.stat().st_size
    assert (path.read_bytes(), log.dropped) == (b"one\xff\x00three\n", 0)
    assert not Path(str(path) + STREAMS_SUFFIX).exists(), "all of it came from stdout"


def test_nobody_else_may_read_it(path: Path) -> None:
    log = log_of(path)
    log.write(STDERR, b"x")
    assert [file.stat().st_mode & 0o777 for file in path.parent.iterdir()] == [0o600, 0o600]


def test_each_change_of_stream_is_recorded_with_its_offset(path: Path) -> None:
    log = log_of(path)
    for stream, piece in ((STDOUT, b"ab"), (STDERR, b"cde"), (STDERR, b"f"), (STDOUT, b"g"), (STDERR, b"h")):
        log.write(stream, piece)
    assert path.read_bytes() == b"abcdefgh"
    assert streams(path) == [(2, STDERR), (6, STDOUT), (7, STDERR)]


def test_what_fits_exactly_is_whole(path: Path) -> None:
    log = log_of(path, 100_000)
    text = b"".join(b"%09d\n" % number for number in range(10_000))
    for start in range(0, 100_000, 700):
        log.write(STDOUT, text[start : start + 700])
    files = [(0, path.read_bytes()), *tail(path)]
    assert b"".join(data for _, data in files) == text
    assert [start for start, _ in files] == [sum(len(data) for _, data in files[:n]) for n in range(len(files))]
    assert (log.dropped, log.size) == (0, 100_000)


@pytest.mark.parametrize("step", [1, 700, 65_536, 1_000_000])
def test_past_its_limit_the_beginning_and_the_end_are_kept(path: Path, step: int) -> None:
    log = log_of(path, 100_000)
    text = b"".join(b"%09d\n" % number for number in range(30_000))
    for start in range(0, 300_000, step):
        log.write(STDOUT, text[start : start + step])
    assert path.read_bytes() == text[:50_000]
    end = b"".join(data for _, data in tail(path))
    assert (text.endswith(end), 43_000 < len(end) <= 50_000) == (True, True)
    assert (tail(path)[0][0], log.size, log.dropped) == (300_000 - len(end), 300_000, 250_000 - len(end))


def test_a_limit_of_nothing_keeps_nothing(path: Path) -> None:
    log = log_of(path, 0)
    log.write(STDOUT, b"abc")
    assert (kept(path), log.dropped, log.size) == (0, 3, 3)


def test_what_tells_the_streams_apart_counts_towards_the_limit(path: Path) -> None:
    """Else a run that changes streams with every byte would fill the disk beside its log."""
    log = log_of(path, 100_000)
    for number in range(20_000):
        log.write(number % 2, b"x")
    assert kept(path) <= 100_000 + 2 * RECORD
    assert log.dropped > 0


def test_each_file_of_the_end_has_its_own_streams(path: Path) -> None:
    log = log_of(path, 20_000)
    log.write(STDOUT, bytes(10_000))
    log.write(STDERR, b"a" * 5000)
    log.write(STDOUT, b"b" * 1000)
    folder = Path(str(path) + TAIL_SUFFIX)
    first, second = sorted(folder.glob("*[0-9]"))
    assert (streams(first), streams(second)) == ([(0, STDERR)], [(0, STDERR), (5000 - 4096, STDOUT)])


def test_a_note_is_kept_whatever_the_limit(path: Path) -> None:
    log = log_of(path, 20_000)
    log.write(STDOUT, b"x" * 100_000)
    log.note("it left 1 behind")
    assert tail(path)[-1][1].endswith(b"[semantica: it left 1 behind]\n")


@contextmanager
def four_bytes() -> Iterator[None]:
    """No file of this process grows beyond that, as on a disk that is full: pytest's own neither, so not for long."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_counted_and_named_and_ends_nothing(path: Path) -> None:
    log = log_of(path)
    with four_bytes():
        log.write(STDOUT, b"abc")
        log.write(STDOUT, b"def")
        log.write(STDERR, b"gh")
    assert (path.read_bytes(), log.size, log.dropped) == (b"abcd", 4, 4)
    assert str(path) in log.error
    assert "cannot be written" in log.error
    log.close()


def test_what_is_dropped_is_counted_though_the_limit_is_reached_too(path: Path) -> None:
    log = log_of(path, 12)
    with four_bytes():
        log.write(STDOUT, b"abcde")
        log.write(STDOUT, b"fghij")
    assert (path.read_bytes(), log.dropped >= 2) == (b"abcd", True)
    log.close()


def test_a_folder_that_is_gone_is_made_again_and_where_that_cannot_be_it_is_trouble(path: Path) -> None:
    gone, far = log_of(path.parent / "a" / "job.log"), log_of(path.parent / "b" / "c" / "job.log")
    for log in (gone, far):
        log.write(STDOUT, b"lost?")
    assert ((path.parent / "a" / "job.log").read_bytes(), gone.dropped) == (b"lost?", 0)
    assert (far.dropped, "b/c/job.log" in far.error) == (5, True)


def test_a_log_that_is_removed_while_it_is_written_is_trouble(path: Path) -> None:
    log = log_of(path)
    log.write(STDOUT, b"x")
    path.unlink()
    log.write(STDOUT, b"y")
    log.close()
    assert "was removed" in log.error


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_not_written_to_and_blocks_nobody(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    log = Log("/dev/full" if kind == "device" else str(path), 1000)
    log.write(STDOUT, b"abc")
    assert (log.dropped, bool(log.error), log.size) == (3, True, 0)


def test_a_link_somebody_has_put_there_is_not_followed(path: Path) -> None:
    precious = path.parent / "precious"
    precious.write_text("mine")
    path.symlink_to(precious)
    log = log_of(path)
    log.write(STDOUT, b"overwritten")
    assert (precious.read_text(), log.dropped) == ("mine", 11)
