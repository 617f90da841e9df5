"""The payload of a SUBPROCESS job: a command line, never given to a shell, and what it starts with."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from semantica_daemon.errors import InvalidParams

Text = Annotated[str, Meta(pattern=r"\A[^\x00]*\Z")]
NAME = r"\A[A-Za-z_][A-Za-z0-9_]*\Z"
POINTER_BYTES = 8
LONGEST_STRING = 131_071  # of an argument or a variable, on Linux


class CommandLine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    argv: Annotated[list[Text], Meta(min_length=1)]
    cwd: Annotated[str, Meta(pattern=r"\A/[^\x00]*\Z")] | None = None
    stdin: str | None = None
    umask: Annotated[int, Meta(ge=0, le=0o777)] | None = None


EnvVars = dict[Annotated[str, Meta(pattern=NAME, max_length=1024)], Text]


def command_line(payload: dict[str, Any]) -> CommandLine:
    try:
        command = msgspec.convert(payload, CommandLine)
    except msgspec.ValidationError as error:
        message = str(error).replace("`$", "`$.payload")
        path = message.rsplit("`", 2)[1] if "`$" in message else "$.payload"
        message = message if "`$" in message else f"{message} - at `$.payload`"
        raise InvalidParams(message, HINTS.get(path, "argv, cwd, stdin and umask are taken"), path=path) from None
    if not command.argv[0]:
        raise InvalidParams(
            "the command is empty - at `$.payload.argv[0]`", HINTS["$.payload.argv"], path="$.payload.argv[0]"
        )
    return command


HINTS = {
    "$.payload.argv": 'a list of strings, the command first: ["make", "test"]; it is not given to a shell',
    "$.payload.cwd": "an absolute path",
    "$.payload.umask": "a number from 0 to 511 (0o777)",
}


def check_length(command: CommandLine, env: dict[str, str], most: int) -> None:
    """What the system would refuse to run, `most` being its limit for all strings together."""
    total = 0
    for number, argument in enumerate(command.argv):
        total += _length(argument, f"$.payload.argv[{number}]")
    for name, value in env.items():
        total += _length(f"{name}={value}", f"$.env_vars.{name}")
    if total > most:
        raise InvalidParams(
            f"the arguments and the environment have {total} bytes, the system takes {most} - at `$.payload.argv`",
            "put them into a file, or send them as stdin",
            path="$.payload.argv",
        )


def _length(text: str, path: str) -> int:
    size = len(text.encode("utf-8", "surrogateescape")) + 1
    if size > LONGEST_STRING:
        raise InvalidParams(
            f"{size} bytes in one string, the system takes {LONGEST_STRING} - at `{path}`",
            "put it into a file, or send it as stdin",
            path=path,
        )
    return size + POINTER_BYTES
