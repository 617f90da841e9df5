"""Makes the folder of a job before its process starts, and removes it later if the job left nothing in it.

A process may write to $SEMANTICA_OUTPUT from its first instruction on, so the folder cannot be made any later. Two
mkdirs take 50 µs on ext4. Removing them can take milliseconds there (with `discard`), so the loop does that while no
command runs.
"""

import os
from collections import deque
from contextlib import suppress

from semantica_daemon.supervisor.messages import SpawnRequest
from semantica_daemon.supervisor.spawn import SpawnError

MAX_UNUSED = 10_000


def make_workspace(request: SpawnRequest) -> None:
    """Both folders can be entered by this user only. A job that has run before has them already."""
    try:
        _make(request.workspace)
        _make(request.output)
    except OSError as error:
        message = f"its folder {request.workspace} cannot be made: {error.strerror}"
        raise SpawnError(message, "workspace", error.errno or 0, retryable=True) from error


class UnusedWorkspaces:
    """Folders of finished runs without output, to be removed if the job left nothing else there either. Of more than
    MAX_UNUSED the oldest are forgotten and stay: while commands run there is no time to remove them."""

    def __init__(self) -> None:
        self._folders: deque[tuple[str, str]] = deque(maxlen=MAX_UNUSED)

    def __len__(self) -> int:
        return len(self._folders)

    def add(self, request: SpawnRequest) -> None:
        self._folders.append((request.workspace, request.output))

    def remove_one(self) -> None:
        """Only while no command runs: a second run of a job uses the same folder."""
        remove_if_empty(*self._folders.popleft())


def remove_if_empty(workspace: str, output: str) -> None:
    with suppress(OSError):
        os.rmdir(output)
        os.rmdir(workspace)


def _make(folder: str) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        os.makedirs(os.path.dirname(folder), 0o700, exist_ok=True)
        os.mkdir(folder, 0o700)
