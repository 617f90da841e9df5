"""The command line `semantica`: finds the command, runs it, and turns whatever it ends with into an exit code."""

import io
import os
import sys
from importlib import import_module

from semantica_daemon.client.codes import (
    DATA,
    INTERNAL,
    INTERRUPTED,
    NO_DAEMON,
    NOBODY_READS,
    PERMISSION,
    TEMPORARY,
    USAGE,
)
from semantica_daemon.client.commands import COMMANDS, EVERYWHERE, EXIT_CODES, OVERVIEW
from semantica_daemon.client.connection import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.shapes import Any
from semantica_daemon.client.terminal import Failed, Terminal, complain, unwritable

# By the number of a refusal; one that can be tried again is TEMPORARY whatever its number.
CODE_OF = {
    -32600: DATA,
    -32603: INTERNAL,
    -32800: TEMPORARY,
    4001: DATA,
    4002: DATA,
    4003: TEMPORARY,
    5001: INTERNAL,
    5002: INTERNAL,
}


def main() -> None:
    """Leaves by os._exit: there is nothing to clean up, and taking the interpreter apart costs more than a call."""
    secure_streams()
    code = ended(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = NOBODY_READS
    except OSError as error:
        complain(str(unwritable(error)))
        code = code or INTERNAL
    os._exit(code)


def secure_streams() -> None:
    """A stream that is closed would let the connection take its number, and the job's output go to the daemon. What an
    old terminal cannot show is replaced, not refused."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def ended(words: list[str]) -> int:
    """The exit code, whatever happens."""
    try:
        return dispatch(words)
    except SystemExit as left:  # argparse, after --help
        return left.code if isinstance(left.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # of stdout: the connection says ConnectionLost
        return NOBODY_READS
    except (Failed, CallRefused, NoDaemon, ConnectionLost, PermissionError) as error:
        complain(*sentences(error, words[first_word(words) :][:1] == ["rpc"]))
        return code_of(error)
    except Exception as error:
        if os.environ.get("SEMANTICA_DEBUG"):
            raise
        complain(f"{type(error).__name__}: {error}", "an error inside Semantica; SEMANTICA_DEBUG=1 shows where")
        return INTERNAL


def dispatch(words: list[str]) -> int:
    early = [word for word in words[: first_word(words)] if word in EVERYWHERE]
    words = words[len(early) :]
    if not words:
        sys.stderr.write(OVERVIEW)
        return USAGE
    name, rest = words[0], [*early, *words[1:]]
    if name in ("-h", "--help") or (name == "help" and not rest):
        sys.stdout.write(OVERVIEW + "\n" + EXIT_CODES)
        return 0
    if name == "--version":
        name = "version"
    if name == "help":
        name, rest = rest[0], [*rest[1:], "--help"]
    if name == "rpc" and (quick := quickly(rest)) is not None:
        return quick
    return perform(name, rest)


def first_word(words: list[str]) -> int:
    """Where the command stands: what every command takes may also stand before it."""
    for number, word in enumerate(words):
        if word not in EVERYWHERE:
            return number
    return len(words)


def perform(name: str, rest: list[str]) -> int:
    if name not in COMMANDS:
        raise unknown(name)
    module, variable = COMMANDS[name]
    found: Any = getattr(import_module(f"semantica_daemon.client.{module}"), variable)
    parsing: Any = import_module("semantica_daemon.client.parser")
    whole, command, rest = parsing.chosen("list" if name == "ls" else name, found, rest)
    arguments = parsing.make(whole, command).understand(rest)
    return int(command.act(arguments, Terminal(arguments.as_json, arguments.quiet, not arguments.no_autostart)))


def quickly(rest: list[str]) -> int | None:
    """`semantica rpc METHOD [JSON]` without argparse; None when there is more to understand."""
    if not 1 <= len(rest) <= 2 or any(word.startswith("-") and word != "-" for word in rest):
        return None
    calling: Any = import_module("semantica_daemon.client.calling")
    return int(calling.call(Terminal(), rest[0], rest[1] if len(rest) == 2 else None))


def unknown(name: str) -> Failed:
    import difflib  # noqa: PLC0415

    near = difflib.get_close_matches(name, [*COMMANDS, "help"], 1)
    if name.startswith("-"):
        return Failed(f"{name} is no option before a command", USAGE, "`semantica --help` shows the commands")
    hint = f"did you mean `semantica {near[0]}`?" if near else "`semantica --help` shows them all"
    return Failed(f"there is no command {name}", USAGE, hint)


def sentences(error: Exception, as_it_is: bool) -> tuple[str, str]:
    """What is wrong, and what to do. `as_it_is`: the caller knows the fields of the protocol, and named them."""
    if isinstance(error, ConnectionLost):
        return str(error), "what was asked last may have happened: look with `semantica list`"
    if isinstance(error, CallRefused):
        message, hint = error.message, str(error.data.get("hint") or "")
        if not as_it_is and any(sign in message + hint for sign in ("$.", "_", ".list ")):
            spec: Any = import_module("semantica_daemon.client.spec")
            hint = "see --help of the command" if hint.startswith("rpc.discover ") else hint
            return spec.in_words_of_the_line(message), spec.in_words_of_the_line(hint)
        return message, hint
    return str(error), error.hint if isinstance(error, Failed) else ""


def code_of(error: Exception) -> int:
    if isinstance(error, Failed | NoDaemon):
        return error.exit_code
    if isinstance(error, CallRefused):
        if error.data.get("retryable"):
            return TEMPORARY
        return DATA if error.data.get("code") == "E_PAYLOAD" else CODE_OF.get(error.code, USAGE)
    return NO_DAEMON if isinstance(error, ConnectionLost) else PERMISSION


if __name__ == "__main__":
    main()
