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
    """`text`: JSON in one line; `complaint`: why the file has no usable result. The other fields count if the run has
    failed; `failure_complaint`: which of them is not usable."""

    text: str | None = None
    complaint: str = ""
    failure_class: ErrorClass | None = None
    retry_after_ms: int | None = None
    failure_complaint: str = ""


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
    return _result(encode_large(value).decode(), value if isinstance(value, dict) else {})


def _bytes(path: str) -> bytes:
    with open(path, "rb", buffering=0, opener=open_regular) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST_RESULT:
            raise OSError(0, f"it has {size} bytes; at most {LARGEST_RESULT} are kept")
        return file.read(LARGEST_RESULT)


def _result(text: str, document: dict[str, Any]) -> Result:
    """With what a failing run may set: {"failure_class": "transient", "retry_after_ms": 30000}."""
    given, after = document.get("failure_class"), document.get("retry_after_ms")
    failure_class = CLASSES.get(given) if isinstance(given, str) else None
    retry_after_ms = after if type(after) is int and after >= 0 else None
    complaint = "" if after is None or retry_after_ms is not None else "retry_after_ms is not a whole number of ms"
    if given is not None and failure_class is None:
        complaint = f"failure_class is none of {', '.join(CLASSES)}"
    return Result(text, "", failure_class, retry_after_ms, complaint)
