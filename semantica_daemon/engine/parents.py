"""What a run sees of the parents of its job: `ctx.parents` of a handler, a variable or a file of a command."""

from typing import Any

import msgspec

from semantica_daemon.engine.run_files import write_file
from semantica_daemon.model.admission import LARGEST_PARENT_RESULT
from semantica_daemon.model.encoding import encode_large
from semantica_daemon.wire.job_view import ParentResult

VARIABLE = "SEMANTICA_PARENT_RESULT"
FILE_VARIABLE = "SEMANTICA_PARENT_RESULT_FILE"
FILE = "parent_result.json"


class ParentJob:
    """A parent as a handler sees it. `result` is what its run returned, None if that was nothing or is left out."""

    def __init__(self, found: ParentResult) -> None:
        self.job_id = found.job_id
        self.state = found.state
        self.truncated = found.truncated
        """True if the result is left out, because the results of all parents are larger than 64 MB."""
        self._text = found.result

    @property
    def result(self) -> Any:
        """Decoded at each call, in the thread of the handler."""
        return msgspec.json.decode(self._text)


def document(found: list[ParentResult], count: int) -> bytes | bytearray:
    """The result of the only parent, null if it has none; of several parents (`count`) an object by their ids."""
    if count > 1:
        return encode_large({one.job_id: one.result for one in found})
    return bytes(found[0].result) if found else b"null"


def variables(text: bytes | bytearray, workspace: str) -> dict[str, str]:
    """The variable of a command. Writes a large result to a file of the workspace, so that has to run in a thread."""
    if not is_large(text):
        return {VARIABLE: text.decode()}
    path = f"{workspace}/{FILE}"
    write_file(path, text)
    return {FILE_VARIABLE: path}


def is_large(text: bytes | bytearray) -> bool:
    return len(text) > LARGEST_PARENT_RESULT
