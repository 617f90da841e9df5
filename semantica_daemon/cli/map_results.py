"""`semantica map --results DIR`: the output of each item in files, as GNU parallel lays them out:
DIR/1/ITEM/stdout, stderr and seq."""

import hashlib
import os

from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.exit_codes import DATA

LONGEST_NAME = 200  # bytes
STREAMS = ("stdout", "stderr")


class ResultFiles:
    """Writes the output of one item; the files of an earlier run of it are replaced."""

    def __init__(self, folder: str, item: str, number: int) -> None:
        self._folder = os.path.join(folder, "1", folder_name(item))
        try:
            os.makedirs(self._folder, exist_ok=True)
            for name, text in (*((stream, "") for stream in STREAMS), ("seq", str(number))):
                with open(os.path.join(self._folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
        except OSError as error:
            raise _cannot_write(error) from None

    def __call__(self, stream: str, data: bytes) -> None:
        try:
            with open(os.path.join(self._folder, stream), "ab") as file:
                file.write(data)
        except OSError as error:
            raise _cannot_write(error) from None


def folder_name(item: str) -> str:
    r"""The item with \_ for a slash and \\ for a backslash; a long one is cut and ends with a hash."""
    name = item.replace("\\", "\\\\").replace("/", "\\_").replace("\t", "\\t").replace("\n", "\\n")
    if name in ("", ".", ".."):
        return "\\" + (name or "0")
    data = name.encode()
    if len(data) <= LONGEST_NAME:
        return name
    return f"{data[:LONGEST_NAME].decode(errors='ignore')}#{hashlib.sha256(data).hexdigest()[:16]}"


def _cannot_write(error: OSError) -> CommandFailed:
    return CommandFailed(f"--results: cannot write to {error.filename}: {error.strerror}", exit_code=DATA)
