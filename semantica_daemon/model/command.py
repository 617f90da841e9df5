"""The payload of a SUBPROCESS job: a command line, which is never passed to a shell, with its directory, umask and
stdin."""

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from semantica_daemon.errors import InvalidParams, located

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST_NAME = 1024
POINTER_BYTES = 8
LONGEST_STRING = 131_071  # of an argument or a variable, on Linux


class EventParam(Struct, frozen=True, forbid_unknown_fields=True):
    """The event that made the job: its command gets it as SEMANTICA_EVENT_KEY and SEMANTICA_EVENT_VALUE."""

    key: Annotated[str, Meta(max_length=256, pattern=r"\A[^\x00]*\Z")]
    value: Annotated[str, Meta(max_length=1024, pattern=r"\A[^\x00]*\Z")] | None = None


class CommandLine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    argv: Annotated[list[str], Meta(min_length=1)]
    cwd: str | None = None
    stdin: str | None = None
    umask: Annotated[int, Meta(ge=0, le=0o777)] | None = None
    event: EventParam | None = None


def command_line(payload: dict[str, Any]) -> CommandLine:
    try:
        command = msgspec.convert(payload, CommandLine)
    except msgspec.ValidationError as error:
        problem, path = located(str(error), "$.payload")
        raise InvalidParams(problem, HINTS.get(path, "argv, cwd, stdin and umask are taken"), path=path) from None
    if not command.argv[0]:
        raise InvalidParams("the command is empty", HINTS["$.payload.argv"], path="$.payload.argv[0]")
    for number, argument in enumerate(command.argv):
        _check_text(argument, f"$.payload.argv[{number}]")
    if command.cwd is not None and not command.cwd.startswith("/"):
        path = "$.payload.cwd"
        raise InvalidParams("a cwd that depends on where the daemon is", HINTS[path], path=path)
    _check_text(command.cwd or "", "$.payload.cwd")
    return command


HINTS = {
    "$.payload.argv": 'a list of strings, the command first: ["make", "test"]; it is not given to a shell',
    "$.payload.cwd": "write it as an absolute path",
    "$.payload.umask": "a number from 0 to 511 (0o777)",
}


def check_variables(env: dict[str, str]) -> None:
    for name, value in env.items():
        if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
            hint = f"letters, digits and _, no digit first, at most {LONGEST_NAME}"
            raise InvalidParams(f"{name[:80]!r} is no name of a variable", hint, path="$.env_vars")
        _check_text(value, f"$.env_vars.{name}")


def _check_text(text: str, path: str) -> None:
    if "\0" in text:
        raise InvalidParams("a NUL byte, which no argument, folder or variable can hold", "leave it out", path=path)


def check_length(command: CommandLine, env: dict[str, str], most: int, inherited: int = 0) -> None:
    """Refuses a command line that the system could not run. `most`: its limit for all strings together. `inherited`:
    the bytes of variables that are not in `env`."""
    sizes = {f"$.payload.argv[{number}]": size_of(text) for number, text in enumerate(command.argv)}
    sizes |= {f"$.env_vars.{name}": size_of(f"{name}={value}") for name, value in env.items()}
    for path, size in sizes.items():
        if size > LONGEST_STRING:
            long = f"{size} bytes in one string, the system takes {LONGEST_STRING}"
            raise InvalidParams(long, "put it into a file, or send it as stdin", path=path)
    total = inherited + sum(sizes.values()) + POINTER_BYTES * len(sizes)
    if total > most:
        problem = f"the arguments and the environment have {total} bytes, the system takes {most}"
        raise InvalidParams(problem, "put them into a file, or send them as stdin", path="$.payload.argv")


def size_of(text: str) -> int:
    """The bytes of an argument, or of a variable as NAME=VALUE, with the NUL at the end."""
    return len(text.encode("utf-8", "surrogateescape")) + 1
