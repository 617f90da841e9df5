"""The JobSpec fields of a job that runs a command. Imports little: the fast path of `semantica add` uses it too."""

import os

LONGEST_TYPE = 128


def command_fields(argv: list[str], cwd: str, umask: int, job_type: str) -> "dict[str, object]":
    return {
        "execution_mode": "SUBPROCESS",
        "job_type": job_type,
        "payload": {"argv": argv, "cwd": cwd, "umask": umask},
    }


def job_type_of(argv: list[str], subject: str | None) -> str:
    """The command's name. With a subject it is the whole command line, so that a newer `lint a.py` supersedes an older
    one, and not the tests of a.py that the same interpreter runs."""
    name = os.path.basename(argv[0]) if subject is None else " ".join(argv)
    if len(name) <= LONGEST_TYPE:
        return name or "command"
    import zlib  # noqa: PLC0415

    return f"{name[: LONGEST_TYPE - 9]}#{zlib.crc32(name.encode()):08x}"


def current_umask() -> int:
    os.umask(mask := os.umask(0))
    return mask
