"""Parses the arguments of one command with argparse: its options, its help with examples, errors that end with 64."""

import argparse
import os
import re
from collections.abc import Callable, Iterable

from semantica_daemon.cli.command import Command, Group, Option, Options, Subcommands
from semantica_daemon.cli.commands import first_word
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.json_types import Any

# Words of other tools, and the subcommand that does the same here.
OTHER_WORDS = {"run": "trigger", "add": "put", "create": "put", "set": "put", "remove": "delete", "rm": "delete"}
SHARED = Group("options of every command", [
    Option("--json", "print JSON, in a stable shape", dest="as_json"),
    Option("-q, --quiet", "no messages; for jobs print only ids"),
    Option("--no-autostart", "do not start the daemon when there is none"),
    Option("-h, --help", "show this help", action="help"),
])  # fmt: skip


class Formatter(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal. argparse creates a formatter for every option, and would import shutil for the width."""

    def __init__(self, prog: str) -> None:
        try:
            width = os.get_terminal_size().columns
        except OSError:
            width = 100
        super().__init__(prog, width=max(60, min(120, width) - 2), max_help_position=30)


class Parser(argparse.ArgumentParser):
    def __init__(self, name: str, command: Command) -> None:
        examples = command.examples if "\n" in command.examples else f"  {command.examples}"
        super().__init__(
            prog=f"semantica {name}",
            usage=f"semantica {name} {command.usage}" if command.usage else None,
            description=command.summary,
            epilog="examples:\n" + examples.strip("\n") if command.examples else None,
            formatter_class=Formatter,
            allow_abbrev=False,
            add_help=False,
        )
        # `-5s` after an option is its value, so that the option's own type refuses it.
        self._negative_number_matcher = re.compile(r"-\.?\d")
        self._after_dashes = command.after_dashes
        _add_options(self, [*command.options, SHARED])

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """Options may be anywhere before the job's command, which begins with the first word that is not an option, or
        after the first `--`."""
        takes_command = any(action.dest == "command" for action in self._actions)
        place = arguments.index("--") if "--" in arguments else len(arguments)
        parse = self.parse_known_args if takes_command else self.parse_known_intermixed_args
        parsed, unknown = parse(arguments[:place] if takes_command or self._after_dashes else arguments)
        if unknown:
            self._fail(f"{unknown[0]} is not known here", did_you_mean(unknown[0], self._option_string_actions))
        if self._after_dashes:
            parsed.command = arguments[place + 1 :]
        elif takes_command:
            parsed.command += arguments[place if parsed.command else place + 1 :]
        return parsed

    def error(self, message: str) -> Any:
        self._fail(message.removeprefix("argument "))

    def _fail(self, message: str, hint: str = "") -> None:
        hint = hint or f"`{self.prog} --help` describes its options"
        raise CommandFailed(f"{self.prog.partition(' ')[2]}: {message}", hint)


def _add_options(parser: Any, options: Options) -> None:
    for one in options:
        if isinstance(one, Option):
            settings = one.settings if one.type is None else {**one.settings, "type": _type(one.type)}
            parser.add_argument(*one.names, **settings)
        elif one.title:
            _add_options(parser.add_argument_group(one.title, one.description), one.options)
        else:
            _add_options(parser.add_mutually_exclusive_group(), one.options)


def _type(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for argparse that reports the ValueError's own message."""

    def read(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    near = nearest(wrong.partition("=")[0], known)
    return f"did you mean {near}?" if near else ""


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Empty when none is near."""
    import difflib  # noqa: PLC0415

    return next(iter(difflib.get_close_matches(wrong, list(known), 1)), "")


def select(name: str, command: Command | Subcommands, arguments: list[str]) -> tuple[str, Command, list[str]]:
    """The command itself or its subcommand: its full name, the command, and the arguments without the name."""
    if isinstance(command, Command):
        return name, command, arguments
    place = first_word(arguments)
    chosen = arguments[place] if place < len(arguments) else ""
    if chosen in ("-h", "--help"):
        return name, _help_of(name, command), arguments
    if not chosen or chosen.startswith("-"):
        chosen = next(iter(command.commands))
    elif chosen not in command.commands:
        same = OTHER_WORDS.get(chosen, chosen)
        near = did_you_mean(same if same in command.commands else chosen, command.commands)
        raise CommandFailed(f"{name}: there is no {chosen}", near or f"there are {', '.join(command.commands)}")
    else:
        arguments = arguments[:place] + arguments[place + 1 :]
    return f"{name} {chosen}", command.commands[chosen], arguments


def _help_of(name: str, command: Subcommands) -> Command:
    """A command that only serves to print the help of its subcommands."""
    lines = "\n".join(f"{name:<9} {one.summary}" for name, one in command.commands.items())
    usage = f"[COMMAND] …      `semantica {name} COMMAND --help` shows its options"
    return Command(command.summary, lambda _, __: None, [Group("commands", [], lines)], command.examples, usage)


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is not a number greater than 0")
    return int(text)
