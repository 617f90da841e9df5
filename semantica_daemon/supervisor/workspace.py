"""Makes the folder of a job before its process starts, opens files in it, and removes it later if the job left nothing
in it.

A process may write to $SEMANTICA_OUTPUT from its first instruction on, so the folder cannot be made any later. Two
mkdirs take 50 µs on ext4. Removing them can take milliseconds there (with `discard`), so the loop does that while no
command runs.
"""

import errno
import os
import stat
from contextlib import suppress

from semantica_daemon.supervisor.messages import SpawnFailed, SpawnRequest
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
        raise SpawnError(SpawnFailed(request.run_id, message, "workspace", error.errno or 0, True)) from error


def open_regular(path: str, flags: int) -> int:
    """The descriptor of a file in the folder. The job may have replaced it by anything: a FIFO does not block, a
    symbolic link is not followed, and anything but a regular file is an OSError."""
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file")
    return handle


def remove_if_empty(workspace: str, output: str) -> None:
    try:
        os.rmdir(output)
        os.rmdir(workspace)
    except OSError:
        return
