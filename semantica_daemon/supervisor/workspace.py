"""Makes the folder of a job before its process starts, and removes it later if the job left nothing in it.

A process may write to $SEMANTICA_OUTPUT from its first instruction on, so the folder cannot be made any later. Two
mkdirs take 50 µs on ext4. Removing them can take milliseconds there (with `discard`), so the loop does that while no
command runs.
"""

import os
from contextlib import suppress

from semantica_daemon.supervisor.messages import SpawnRequest
from semantica_daemon.supervisor.spawn import SpawnError


def make_workspace(request: SpawnRequest) -> None:
    """Both folders can be entered by this user only. A job that has run before has them already."""
    try:
        try:
            os.mkdir(request.workspace, 0o700)
            os.mkdir(request.output, 0o700)
        except (FileExistsError, FileNotFoundError):
            for folder in (os.path.dirname(request.workspace), request.workspace, request.output):
                with suppress(FileExistsError):
                    os.mkdir(folder, 0o700)
    except OSError as error:
        message = f"its folder {request.workspace} cannot be made: {error.strerror}"
        raise SpawnError(message, "workspace", error.errno or 0, retryable=True) from error


def remove_if_empty(workspace: str, output: str) -> None:
    try:
        os.rmdir(output)
        os.rmdir(workspace)
    except OSError:
        return
