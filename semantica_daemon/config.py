"""config.toml: every key optional, unknown ones refused with the nearest name. Only `daemon`, `reload` and `serving`
use it."""

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from semantica_daemon import prose
from semantica_daemon.errors import StartRefused, did_you_mean
from semantica_daemon.model.machine import MachineRules
from semantica_daemon.model.queue import MOST_SLOTS, QueueRules

SECRET_WORD = re.compile(r"[A-Za-z0-9]+")
QUEUE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class DaemonSection(Struct, frozen=True, forbid_unknown_fields=True):
    max_slots: Annotated[int, Meta(ge=0, le=MOST_SLOTS)] = 0
    grace_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 5000
    durability: Literal["normal", "full"] = "normal"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    secret_words: list[str] = []
    cgroup: str = ""


class LimitsSection(Struct, frozen=True, forbid_unknown_fields=True):
    # At least as much as sixteen of the smallest files of a log's end: eight of them are the half that is kept of it.
    log_bytes: Annotated[int, Meta(ge=65_536, le=2**50)] = 64_000_000


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    daemon: DaemonSection = DaemonSection()
    queues: dict[str, QueueRules] = {}
    machine: MachineRules = MachineRules()
    limits: LimitsSection = LimitsSection()
    handlers: dict[str, str] = {}
    handler_path: list[str] = []

    @property
    def slots(self) -> int:
        return self.daemon.max_slots or os.cpu_count() or 1


def load(path: Path, must_exist: bool = False) -> Config:
    """Without a file the defaults apply; a file that was named explicitly must exist."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        if must_exist:
            raise StartRefused(f"{path} does not exist: create it, or leave --config out") from None
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise StartRefused(f"{path} cannot be read ({error}): repair or remove it") from error
    try:
        config = msgspec.convert(tomllib.loads(text), Config)
    except tomllib.TOMLDecodeError as error:
        raise StartRefused(f"{path} is not TOML: {error}; repair that line") from error
    except msgspec.ValidationError as error:
        raise StartRefused(f"{path}: {_explain(str(error))}") from error
    _check_queues(config, path)
    for word in config.daemon.secret_words:
        if not SECRET_WORD.fullmatch(word):
            raise StartRefused(f"{path}: daemon.secret_words: {word!r}: write a word of letters and digits, without _")
    folders = [str((path.parent / Path(folder).expanduser()).resolve()) for folder in config.handler_path]
    return msgspec.structs.replace(config, handler_path=folders)


def _check_queues(config: Config, path: Path) -> None:
    for name, rules in config.queues.items():
        if not QUEUE_NAME.fullmatch(name):
            raise StartRefused(f"{path}: queue name {name!r}: at most 64 of A-Z a-z 0-9 _ . -")
        if (rules.slots or 0) < 0 or (rules.max_queued or 0) < 0:
            raise StartRefused(f"{path}: queues.{name}: slots and max_queued cannot be negative")


def _explain(message: str) -> str:
    """msgspec's sentence in the words of a config file: keys by their dotted names, and the nearest for a wrong one."""
    where = re.search(r" - at `\$\.?([^`]*)`", message)
    section = where[1] if where else ""
    unknown = re.search(r"unknown field `([^`]+)`", message)
    if unknown:
        near = did_you_mean(unknown[1], getattr(_kind(section), "__struct_fields__", ()))
        key = f"{section}.{unknown[1]}" if section else unknown[1]
        return f"unknown key {key}" + (f": {near}" if near else "")
    return (
        f"{section.replace('[...]', '.NAME')}: {_problem(message.split(' - at ')[0], section)}" if section else message
    )


def _problem(problem: str, key: str) -> str:
    if problem.startswith("Expected `int") and problem.endswith("got `str`"):
        return "must be a number without quotes"
    if problem.startswith("Expected `object") and key.endswith("rate"):
        return "must be a table, such as {count = 10, per_ms = 60000}"
    if problem.startswith("Invalid enum value"):
        section, _, name = key.rpartition(".")
        values = _texts(get_type_hints(_kind(section))[name])
        return f"{problem.removeprefix('Invalid enum value ')} is not one of {', '.join(map(repr, values))}"
    return prose.requirement(problem)


def _texts(kind: Any) -> list[str]:
    """The values of a Literal, also inside an optional type."""
    return [kind] if isinstance(kind, str) else [text for part in get_args(kind) for text in _texts(part)]


def _kind(section: str) -> Any:
    """The Struct of a section; the whole configuration has no name."""
    if section.startswith("queues"):
        return QueueRules
    return get_type_hints(Config).get(section) if section else Config
