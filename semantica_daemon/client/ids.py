"""How a job is named on the line: its id, the beginning of it, or @last, which is remembered next to the log."""

import os

from semantica_daemon.client.codes import DATA
from semantica_daemon.client.connection import Client
from semantica_daemon.client.terminal import Failed
from semantica_daemon.places import Places

LAST = "@last"
HEX = frozenset("0123456789abcdefABCDEF-")


def check(text: str) -> str:
    """A type for argparse: what cannot be an id is wrong before anybody is asked."""
    if text == LAST or (4 <= len(text) <= 36 and HEX.issuperset(text)):
        return text
    raise ValueError(f"{text!r} is no job id: give at least 4 characters of one, or {LAST}")


def resolve(client: Client, where: Places, text: str) -> str:
    """What the daemon understands: prefixes it does, @last it does not."""
    if text != LAST:
        return text
    remembered = recall(where)
    if remembered:
        return remembered
    newest = client.call("job.list", limit=1)["items"]
    if not newest:
        raise Failed("there is no job yet", DATA, "`semantica run -- COMMAND` makes one")
    return str(newest[0]["job_id"])


def recall(where: Places) -> str | None:
    try:
        with open(_file(where), encoding="utf-8") as file:
            text = file.read(100).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) == 36 and HEX.issuperset(text) else None


def remember(where: Places, job_id: str) -> None:
    """At once or not at all; a folder that cannot be written to costs @last and nothing else."""
    if "SEMANTICA_RUN_ID" in os.environ:  # a job's jobs are not what its user handed in last
        return
    path = _file(where)
    beside = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(beside, "w", encoding="utf-8") as file:
            file.write(job_id + "\n")
        os.replace(beside, path)
    except OSError:
        pass


def _file(where: Places) -> str:
    return os.path.join(os.path.dirname(where.log), "last")


def short(job_id: str) -> str:
    return job_id[:8]
