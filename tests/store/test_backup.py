"""Backups on real files: a snapshot beside a writer, verified, private, pruned by name; a failed one leaves nothing."""

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from semantica_daemon.store import backup
from semantica_daemon.store.backup import Backup, is_intact, list_backups, problem_of, prune
from semantica_daemon.store.backup_copy import (
    NOTE,
    STEP_PAGES,
    BackupStopped,
    Source,
    free_name,
    remove_unfinished,
)
from semantica_daemon.store.writes.enqueue import enqueue
from tests.builders import NOW, Store, admitted

DAY_MS = 86_400_000
NAMED = "meta-20270115T080000Z.db"  # at NOW


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "backups"
    found.mkdir()
    return found


def jobs_in(path: Path) -> int:
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    (count,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
    connection.close()
    return int(count)


def fill(store: Store, pages: int) -> None:
    """Jobs with payloads of a page each."""
    store.connection.execute("PRAGMA synchronous = OFF")
    for _ in range(pages):
        store.run(enqueue, admitted("semantica.echo", payload={"text": "x" * 5000}))


def test_a_backup_is_the_database_at_one_instant_although_the_writer_goes_on(store: Store, folder: Path) -> None:
    fill(store, 3 * STEP_PAGES)
    before, steps = jobs_in_store(store), 0

    def write_more() -> bool:
        nonlocal steps
        steps += 1
        store.run(enqueue, admitted())
        return False

    target = folder / NAMED
    size = Source(store.path, folder.parent, write_more).copy_to(target)
    assert steps > 3, "it was copied in steps"
    assert (jobs_in(target), jobs_in_store(store) > before) == (before, True)
    assert (size, stat.S_IMODE(target.stat().st_mode)) == (target.stat().st_size, 0o600)
    assert is_intact(target)
    assert os.listdir(folder) == [NAMED]
    assert not (folder.parent / NOTE).exists()


def jobs_in_store(store: Store) -> int:
    return int(store.connection.execute("SELECT count(*) FROM jobs").fetchone()[0])


def test_a_backup_that_is_stopped_leaves_nothing(store: Store, folder: Path) -> None:
    fill(store, 2 * STEP_PAGES)
    with pytest.raises(BackupStopped):
        Source(store.path, folder.parent, lambda: True).copy_to(folder / NAMED)
    assert os.listdir(folder) == []
    assert not (folder.parent / NOTE).exists()


def test_a_file_that_exists_is_never_overwritten(store: Store, folder: Path) -> None:
    (folder / NAMED).write_text("mine")
    with pytest.raises(FileExistsError):
        Source(store.path, folder.parent).copy_to(folder / NAMED)
    assert (folder / NAMED).read_text() == "mine"
    assert os.listdir(folder) == [NAMED]
    assert free_name(folder, NOW).name == "meta-20270115T080000Z-2.db"


def test_a_damaged_copy_is_not_intact(store: Store, folder: Path) -> None:
    fill(store, 20)
    target = folder / NAMED
    Source(store.path, folder.parent).copy_to(target)
    whole = target.read_bytes()
    damages = {"no file": None, "empty": b"", "text": b"no database at all" * 300, "cut": whole[: len(whole) // 2]}
    damages["page"] = whole[:8192] + b"\xff" * 4096 + whole[12288:]
    for name, content in damages.items():
        target.unlink(missing_ok=True)
        if content is not None:
            target.write_bytes(content)
        assert not is_intact(target), name
        assert str(target) in str(problem_of(target)), name
    assert os.listdir(folder) == [NAMED], "looking at a file makes no others"


def test_backups_are_listed_newest_first_and_nothing_else_is(folder: Path) -> None:
    names = [
        "meta-20260101T000000Z.db", "meta-20260103T000000Z.db", "meta-before-v24-20260102T000000Z.db",
        "meta-20260103T000000Z-2.db",
    ]  # fmt: skip
    others = ["meta.db", "meta-20260101T000000Z.db.gz", "meta-20269901T000000Z.db", "x-meta-20260101T000000Z.db"]
    for name in [*names, *others]:
        (folder / name).write_text("12345")
    (folder / "meta-20260105T000000Z.db").mkdir()
    (folder / "meta-20260106T000000Z.db").symlink_to(folder / names[0])
    found = list_backups(folder)
    assert [backup.path.name for backup in found] == [names[3], names[1], names[2], names[0]]
    assert found[2] == Backup(folder / names[2], 1_767_312_000_000, 5, 24)
    assert list_backups(folder / "missing") == []


def test_pruning_keeps_the_newest_of_each_kind_and_every_file_of_another_name(folder: Path) -> None:
    days = [backup.file_name(NOW + day * DAY_MS) for day in range(5)]
    upgrades = [backup.file_name(NOW + day * DAY_MS, 24 + day) for day in range(3)]
    mine = ["meta.db", "meta-before-my-holiday.db", "notes.txt"]
    for name in [*days, *upgrades, *mine]:
        (folder / name).touch()
    deleted = prune(folder, 2)
    assert {path.name for path in deleted} == {*days[:3], upgrades[0]}
    assert set(os.listdir(folder)) == {*days[3:], *upgrades[1:], *mine}


def test_the_file_of_a_killed_backup_is_removed_at_the_next_start_and_no_other(folder: Path) -> None:
    temporary, mine = folder / ".meta-backup-abc.tmp", folder / "mine"
    for path in (temporary, mine):
        path.touch()
    (folder / NOTE).write_text(str(temporary))
    assert remove_unfinished(folder) == temporary
    (folder / NOTE).write_text(str(mine))
    remove_unfinished(folder)
    assert remove_unfinished(folder) is None
    assert os.listdir(folder) == ["mine"]
