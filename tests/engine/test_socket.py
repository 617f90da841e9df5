"""The socket file is looked after: whoever deletes or replaces it, the daemon can be reached again."""

import os
import socket
import stat
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness import PATIENCE_S, Harness, Process
from tests.homes import migrated_home


def _deleted(path: Path) -> None:
    path.unlink()


def _replaced_by_a_file(path: Path) -> None:
    path.unlink()
    path.write_text("not a socket")


def _replaced_by_a_socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))


def _replaced_by_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("how", [_deleted, _replaced_by_a_file, _replaced_by_a_socket, _replaced_by_a_link])
async def test_a_socket_that_is_gone_is_bound_again_within_five_seconds(
    manual: Harness, how: Callable[[Path], None]
) -> None:
    kept = await manual.client()
    await kept.call("admin.health")
    how(manual.paths.socket)
    await manual.advance(5000)
    found = manual.paths.socket.lstat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    again = await manual.client()
    assert (await again.call("admin.health"))["status"] == "ready"
    assert (await kept.call("admin.health"))["status"] == "ready", "who was connected stays connected"
    await kept.close()
    await again.close()


async def test_a_file_put_at_the_path_of_the_socket_is_moved_aside_and_never_deleted(manual: Harness) -> None:
    """Also when it has the inode of the socket before it, as it often has; twice, and once more at the end."""
    await manual.call("admin.health")
    path = manual.paths.socket
    for number in (1, 2):
        _replaced_by_a_file(path)
        await manual.advance(5000)
        assert path.with_name(f"{path.name}.{number}").read_text() == "not a socket"
    _replaced_by_a_file(path)
    manual.daemon.server.close()
    assert path.read_text() == "not a socket"


async def test_a_folder_in_the_sockets_place_is_moved_aside_with_its_files(manual: Harness) -> None:
    await manual.call("admin.health")
    path = manual.paths.socket
    path.unlink()
    path.mkdir()
    (path / "file").write_text("not a socket")
    kept = (await manual.enqueue())["job_id"]
    await manual.advance(5000)
    assert await manual.state(kept) == "DONE"
    assert (path.with_name(f"{path.name}.1") / "file").read_text() == "not a socket"
    again = await manual.client()
    assert (await again.call("admin.health"))["status"] == "ready"
    await again.close()


async def test_a_lost_folder_does_not_stop_the_daemon(manual: Harness, home: Path) -> None:
    """The whole home is moved away for a while, as a clean-up of temporary folders may do."""
    kept = (await manual.enqueue())["job_id"]
    await manual.settle()
    away = home.with_name(home.name + "-away")
    os.rename(home, away)
    await manual.advance(10_000)
    os.rename(away, home)
    await manual.advance(10_000)
    again = await manual.client()
    assert (await again.call("job.get", job_id=kept))["state"] == "DONE"
    await again.close()


def test_a_daemon_whose_files_were_removed_leaves() -> None:
    """It would acknowledge what nobody can ever read again. Both daemons at once: each looks every five seconds."""
    with ExitStack() as stack:
        homes = {name: stack.enter_context(migrated_home()) for name in ("meta.db", "daemon.lock")}
        processes = {name: stack.enter_context(Process(home)).start() for name, home in homes.items()}
        for name, home in homes.items():
            (home / name).unlink()
        (homes["daemon.lock"] / "daemon.lock").touch()
        for name, process in processes.items():
            assert process.process is not None
            assert process.process.wait(PATIENCE_S) == 70
            assert f"{name} was removed or replaced" in process.stderr()
