"""Files that a run of a command finds in the folder of its job, written in a thread before the process starts."""

import os
from contextlib import suppress

import msgspec

from semantica_daemon.model.gather import split


def gathered_variables(payload: str, workspace: str) -> dict[str, str]:
    """Writes the payloads that the job has gathered to a file, as a JSON list. Returns the variable with its path and
    the one with the number of payloads that are missing there."""
    gathering, path = split(payload), f"{workspace}/gathered.json"
    write_file(path, msgspec.json.encode(gathering.payloads))
    return {"SEMANTICA_GATHERED": path, "SEMANTICA_GATHERED_DROPPED": str(gathering.dropped)}


def write_file(path: str, text: bytes | bytearray) -> None:
    """Makes the folder of the job if need be, and replaces whatever an earlier run has left there."""
    workspace = os.path.dirname(path)
    for folder in (os.path.dirname(workspace), workspace):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    with suppress(FileNotFoundError):
        os.unlink(path)
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)) as file:
        file.write(text)
