"""Parses the arguments of one command with argparse: its options, its help with examples, errors that end with 64."""

import argparse
import os
import re
from collections.abc import Callable

from semantica_daemon.cli.command import Command, Subcommands
from semantica_daemon.cli.commands import GLOBAL_OPTIONS
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.exit_codes import USAGE
from semantica_daemon.client.json_types import Any

Namespace = argparse.Namespace
# Words of other tools, and the subcommand that does the same here.
OTHER_WORDS = {"run": "trigger", "add": "put", "create": "put", "set": "put", "remove": "delete", "rm": "delete"}


class Formatter(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal. argparse creates a formatter for every option, and would import shutil for the width."""

    def __init__(self, prog: str) -> None:
        try:
            width = os.get_terminal_size().columns
        except OSError:
            width = 100
        super().__init__(prog, width=max(60, min(120, width) - 2), max_help_position=30)


class Parser(argparse.ArgumentParser):
    takes_command = False
    takes_command_after_dashes = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # `-5s` after an option is its value, so that the option's own type refuses it.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def parse(self, arguments: list[str]) -> Namespace:
        """Options may be anywhere before the job's command, which begins with the first word that is not an option, or
        after the first `--`."""
        place = arguments.index("--") if "--" in arguments else len(arguments)
        if self.takes_command_after_dashes:
            parsed = self._check(self.parse_known_intermixed_args(arguments[:place]))
            parsed.command = arguments[place + 1 :]
            return parsed
        if not self.takes_command:
            return self._check(self.parse_known_intermixed_args(arguments))
        parsed = self._check(self.parse_known_args(arguments[:place]))
        parsed.command += arguments[place if parsed.command else place + 1 :]
        return parsed

    def _check(self, result: tuple[Namespace, list[str]]) -> Namespace:
        """Refuses the first argument that is not known, with the option nearest to it."""
        parsed, unknown = result
        if unknown:
            self._fail(f"{unknown[0]} is not known here", did_you_mean(unknown[0], self._option_string_actions))
        return parsed

    def error(self, message: str) -> Any:
        self._fail(message.removeprefix("argument "))

    def _fail(self, message: str, hint: str = "") -> None:
        hint = hint or f"`{self.prog} --help` describes its options"
        raise CommandFailed(f"{self.prog.partition(' ')[2]}: {message}", USAGE, hint)


def did_you_mean(wrong: str, known: Any) -> str:
    import difflib  # noqa: PLC0415

    near = difflib.get_close_matches(wrong.partition("=")[0], known, 1)
    return f"did you mean {near[0]}?" if near else ""


def select(name: str, command: Command | Subcommands, arguments: list[str]) -> tuple[str, Command, list[str]]:
    """The command itself or its subcommand: its full name, the command, and the arguments without the name."""
    if isinstance(command, Command):
        return name, command, arguments
    place = next((index for index, word in enumerate(arguments) if word not in GLOBAL_OPTIONS), len(arguments))
    chosen = arguments[place] if place < len(arguments) else ""
    if chosen in ("-h", "--help"):
        return name, _help_of(name, command), arguments
    if not chosen or chosen.startswith("-"):
        chosen = next(iter(command.commands))
    elif chosen not in command.commands:
        same = OTHER_WORDS.get(chosen)
        hint = (
            did_you_mean(same if same in command.commands else chosen, command.commands)
            or f"there are {', '.join(command.commands)}"
        )
        raise CommandFailed(f"{name}: there is no {chosen}", USAGE, hint)
    else:
        arguments = arguments[:place] + arguments[place + 1 :]
    return f"{name} {chosen}", command.commands[chosen], arguments


def _help_of(name: str, command: Subcommands) -> Command:
    """A command that only serves to print the help of its subcommands."""
    lines = "\n".join(f"{name:<9} {one.summary}" for name, one in command.commands.items())
    usage = f"[COMMAND] …      `semantica {name} COMMAND --help` shows its options"

    def options(parser: Parser) -> None:
        parser.add_argument_group("commands", lines)

    return Command(command.summary, lambda _, __: 0, options, command.examples, usage)


def make(name: str, command: Command) -> Parser:
    parser = Parser(
        prog=f"semantica {name}",
        usage=f"semantica {name} {command.usage}" if command.usage else None,
        description=command.summary,
        epilog="examples:\n" + command.examples.strip("\n") if command.examples else None,
        formatter_class=Formatter,
        allow_abbrev=False,
        add_help=False,
    )
    command.options(parser)
    shared = parser.add_argument_group("options of every command")
    shared.add_argument("--json", action="store_true", dest="as_json", help="print JSON, in a stable shape")
    shared.add_argument("-q", "--quiet", action="store_true", help="print only data; of jobs only the ids")
    shared.add_argument("--no-autostart", action="store_true", help="do not start the daemon when there is none")
    shared.add_argument("-h", "--help", action="help", help="show this help")
    return parser


def type_of(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for argparse that reports the ValueError's own message."""

    def read(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is not a number greater than 0")
    return int(text)
