"""`@last`: the id of the job that the user added last, kept in a file next to the log. Imports little: the fast path
of `semantica add` uses it."""

import os

from semantica_daemon.paths import Paths

HEX = frozenset("0123456789abcdefABCDEF-")


def recall(paths: Paths) -> str | None:
    try:
        with open(_file(paths), encoding="utf-8") as file:
            text = file.read(100).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) == 36 and HEX.issuperset(text) else None


def remember(paths: Paths, job_id: str) -> None:
    """Writes by rename. A folder that cannot be written to costs @last and nothing else."""
    if "SEMANTICA_RUN_ID" in os.environ:  # the jobs that a job adds are not the ones its user added last
        return
    path = _file(paths)
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(f"{job_id}\n".encode())
        os.replace(temporary, path)
    except OSError:
        pass


def _file(paths: Paths) -> str:
    return os.path.join(os.path.dirname(paths.log), "last")
