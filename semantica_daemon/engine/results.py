"""The paths of a run's files, and the result document that the run may have written."""

import os
import stat
from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon.model.nesting import MOST, too_deep
from semantica_daemon.model.outcome import CLASSES, LARGEST_RESULT
from semantica_daemon.wire.run import ErrorClass


class Files(Struct, frozen=True):
    workspace: str
    output: str
    result: str
    log: str


def files(workspaces: str, job_id: str, run_count: int) -> Files:
    """The first run of a job has `job.log`, the second `job.2.log`."""
    workspace = f"{workspaces}/{job_id}"
    number = "" if run_count == 1 else f".{run_count}"
    return Files(workspace, f"{workspace}/output", f"{workspace}/result{number}.json", f"{workspace}/job{number}.log")


class Result(Struct, frozen=True):
    """`text`: JSON in one line; `complaint`: why the file has no usable result."""

    text: str | None = None
    failure_class: ErrorClass | None = None
    complaint: str = ""


NOTHING = Result()


def read(path: str) -> Result:
    """Runs in a thread. The job may have replaced the file by anything: a FIFO does not block, a symbolic link is not
    followed."""
    try:
        text = _bytes(path)
        value = msgspec.json.decode(text) if text.strip() else None
    except OSError as error:
        return Result(complaint=f"cannot be read: {error.strerror or error}")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return Result(complaint=f"is no JSON document: {error}")
    if too_deep(text):
        return Result(complaint=f"is nested deeper than {MOST} levels")
    if value is None:
        return NOTHING
    return Result(msgspec.json.encode(value).decode(), _class_of(value))


def _bytes(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is no regular file")
        if found.st_size > LARGEST_RESULT:
            raise OSError(0, f"it has {found.st_size} bytes; at most {LARGEST_RESULT} are kept")
        return os.read(handle, LARGEST_RESULT)
    finally:
        os.close(handle)


def _class_of(value: Any) -> ErrorClass | None:
    """The failure class that a failing run may set: {"failure_class": "permanent"}."""
    given = value.get("failure_class") if isinstance(value, dict) else None
    return CLASSES.get(given) if isinstance(given, str) else None
