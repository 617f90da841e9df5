"""The result document that a run may have written."""

import os
from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon.model.encoding import encode_large
from semantica_daemon.model.nesting import MOST, too_deep
from semantica_daemon.model.outcome import CLASSES, LARGEST_RESULT
from semantica_daemon.supervisor.workspace import open_regular
from semantica_daemon.wire.run import ErrorClass


class Result(Struct, frozen=True):
    """`text`: JSON in one line; `complaint`: why the file has no usable result."""

    text: str | None = None
    failure_class: ErrorClass | None = None
    complaint: str = ""


NOTHING = Result()


def read(path: str) -> Result:
    """Runs in a thread."""
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
    return Result(encode_large(value).decode(), _class_of(value))


def _bytes(path: str) -> bytes:
    with open(path, "rb", buffering=0, opener=open_regular) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST_RESULT:
            raise OSError(0, f"it has {size} bytes; at most {LARGEST_RESULT} are kept")
        return file.read(LARGEST_RESULT)


def _class_of(value: Any) -> ErrorClass | None:
    """The failure class that a failing run may set: {"failure_class": "permanent"}."""
    given = value.get("failure_class") if isinstance(value, dict) else None
    return CLASSES.get(given) if isinstance(given, str) else None
