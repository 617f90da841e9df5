"""Finds the command, runs it, and turns its result or its error into an exit code."""

import io
import os
import sys
from collections.abc import Callable

from semantica_daemon.cli.commands import COMMANDS, EXIT_CODES, GLOBAL_OPTIONS, OVERVIEW, first_word, load
from semantica_daemon.cli.errors import CommandFailed, describe, exit_code
from semantica_daemon.cli.terminal import Terminal, cannot_write, print_error
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.exit_codes import BROKEN_PIPE, INTERNAL, INTERRUPTED, USAGE

NAMED_BY_TWO_WORDS = ("queue", "schedule", "service", "template", "rpc")


def run(arguments: list[str]) -> None:
    """Exits by os._exit: there is nothing to clean up, and tearing down the interpreter costs more than a call."""
    secure_streams()
    os._exit(guarded(lambda: dispatch(arguments), command_name(arguments)))


def secure_streams() -> None:
    """Opens closed standard streams, so that the connection cannot get their numbers; replaces characters that the
    terminal's encoding lacks."""
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


def guarded(action: Callable[[], int], command: str) -> int:
    """The exit code of the action or of its error, after stdout is flushed. `command` is named in hints."""
    code = _exit_code(action, command)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return BROKEN_PIPE
    except OSError as error:
        print_error(str(cannot_write(error)))
        return code or INTERNAL
    return code


def _exit_code(action: Callable[[], int], command: str) -> int:
    """Raises only when SEMANTICA_DEBUG asks for a traceback."""
    try:
        return action()
    except SystemExit as exit:  # argparse, after --help
        return exit.code if isinstance(exit.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # of stdout: the connection raises ConnectionLost
        return BROKEN_PIPE
    except (CommandFailed, CallRefused, NoDaemon, ConnectionLost, PermissionError) as error:
        print_error(*describe(error, command))
        return exit_code(error)
    except Exception as error:
        if os.environ.get("SEMANTICA_DEBUG"):
            raise
        print_error(f"{type(error).__name__}: {error}", "an error inside Semantica; SEMANTICA_DEBUG=1 shows where")
        return INTERNAL


def dispatch(arguments: list[str]) -> int:
    index = first_word(arguments)
    options, words = arguments[:index], arguments[index:]
    if not words:
        sys.stderr.write(OVERVIEW)
        return USAGE
    name, rest = words[0], [*options, *words[1:]]
    if name in ("-h", "--help") or (name == "help" and words[1:] in ([], ["-h"], ["--help"], ["help"])):
        sys.stdout.write(OVERVIEW + "\n" + EXIT_CODES)
        return 0
    if name == "--version":
        name = "version"
    if name == "help":
        name, rest = rest[0], [*rest[1:], "--help"]
    return run_command(name, rest)


def command_name(arguments: list[str]) -> str:
    """`add`, or `schedule put` for a command that has subcommands; empty when no command is given."""
    words = [word for word in arguments[first_word(arguments) :] if word not in GLOBAL_OPTIONS]
    return " ".join(words[: 2 if words[:1] and words[0] in NAMED_BY_TWO_WORDS else 1])


def run_command(name: str, rest: list[str]) -> int:
    if name not in COMMANDS:
        raise unknown_command(name)
    from semantica_daemon.cli import parser  # noqa: PLC0415

    full_name, command, rest = parser.select("list" if name == "ls" else name, load(name), rest)
    arguments = parser.Parser(full_name, command).parse(rest)
    return int(command.run(arguments, Terminal(arguments.as_json, arguments.quiet, not arguments.no_autostart)) or 0)


def unknown_command(name: str) -> CommandFailed:
    from semantica_daemon.cli.other_words import same_here  # noqa: PLC0415
    from semantica_daemon.cli.parser import nearest  # noqa: PLC0415

    hint = "`semantica --help` lists the commands"
    if name.startswith("-"):
        return CommandFailed(f"{name} is not an option that may precede a command", hint)
    same = same_here(name) or nearest(name, [*COMMANDS, "help"])
    return CommandFailed(f"there is no command {name}", f"did you mean `semantica {same}`?" if same else hint)
