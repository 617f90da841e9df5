"""What is kept of a map beside its jobs: a file for each name, so that `semantica map --resume` finds the jobs again
and knows which of their ends were shown already."""

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.exit_codes import DATA
from semantica_daemon.client.json_types import Json
from semantica_daemon.paths import Paths, make_private

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
DIGEST = 32  # characters
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class MapRecord:
    """`label`: the tag and group of the jobs, which another map of the same name does not share. `sequence` and
    `epoch`: the ends of jobs up to this event were shown. `is_complete`: all items were taken; `taken`: how many, each
    once."""

    def __init__(self, name: str, label: str, command: list[str], cwd: str) -> None:
        self.name = name
        self.label = label
        self.command = command
        self.cwd = cwd
        self.sequence = 0
        self.epoch = ""
        self.taken = 0
        self.is_complete = False
        self.jobs = 0
        self.halt = "never"
        self.has_turns = False  # items were run again on request

    @classmethod
    def make(cls, name: str, command: list[str], cwd: str) -> "MapRecord":
        return cls(name, f"map:{name}:{_short(time.time_ns() // 1_000_000)}", command, cwd)


class MapRecords:
    def __init__(self, paths: Paths) -> None:
        self._folder = os.path.join(paths.data, "maps")

    def find(self, name: str) -> MapRecord | None:
        try:
            with open(self._path(name), encoding="utf-8") as file:
                kept = json.load(file)
            record = MapRecord(kept["name"], kept["label"], kept["command"], kept["cwd"])
        except (OSError, ValueError, LookupError, TypeError):
            return None
        record.__dict__.update({field: kept[field] for field in record.__dict__ if field in kept})
        return record

    def newest(self) -> MapRecord | None:
        """The one that was made or resumed last."""
        try:
            with os.scandir(self._folder) as entries:
                found = [(entry.stat().st_mtime_ns, entry.name) for entry in entries if entry.name.endswith(".json")]
        except OSError:
            return None
        return self.find(max(found)[1].removesuffix(".json")) if found else None

    def keep(self, record: MapRecord) -> None:
        """Written by rename: a reader finds the old record or the new one."""
        path = self._path(record.name)
        temporary = f"{path}.{os.getpid()}"
        fields: Json = dict(record.__dict__)
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(fields, file)
            os.replace(temporary, path)
        except OSError as error:
            raise CommandFailed(f"cannot write to {self._folder}: {error.strerror}", exit_code=DATA) from None

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """So that two commands that begin the same map at once do not both take it for new."""
        try:
            make_private(self._folder)
            handle = os.open(f"{self._path(name)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CommandFailed(f"cannot use {self._folder}: {error.strerror or error}", exit_code=DATA) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name}.json")


def checked_name(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a name: up to 64 letters, digits, _ . and -")
    return text


def derived_name(command: list[str], cwd: str, items: list[str]) -> str:
    """The command's name and a hash: the same command in the same folder with the same items has the same name."""
    text = json.dumps([command, cwd, items])
    program = re.sub(r"[^A-Za-z0-9_.-]", "", os.path.basename(command[0]))[:40].lstrip(".-") or "map"
    return f"{program}-{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def item_key(label: str, item: str) -> str:
    """The idempotency key of an item."""
    return f"{label}:{hashlib.sha256(item.encode()).hexdigest()[:DIGEST]}"


def with_turn(key: str, turn: int) -> str:
    """`turn`: 1, and one more each time the item is run again on request."""
    return key if turn == 1 else f"{key}:{turn}"


def without_turn(key: str) -> tuple[str, int]:
    """The key of the item, and the turn."""
    first, _, last = key.rpartition(":")
    return (key, 1) if len(last) == DIGEST else (first, int(last))


def _short(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
    return text
