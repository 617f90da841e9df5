"""One command's part of the line: its options, its help with examples, and usage errors that end with 64."""

import argparse
import os
import re
from collections.abc import Callable

from semantica_daemon.client.codes import USAGE
from semantica_daemon.client.commands import EVERYWHERE
from semantica_daemon.client.shapes import Any
from semantica_daemon.client.terminal import Failed, Terminal

Namespace = argparse.Namespace

# argparse looks for a translation of each of its words, on the disk, at every start; ours have none.
vars(argparse)["_"] = str


class Command:
    """`act` does it and returns the exit code; `options` adds what is its own to the parser."""

    def __init__(
        self,
        summary: str,
        act: Callable[[Namespace, Terminal], int],
        options: Callable[["Parser"], None] = lambda _: None,
        examples: str = "",
        usage: str | None = None,
    ) -> None:
        self.summary = summary
        self.act = act
        self.options = options
        self.examples = examples
        self.usage = usage


class Verbs:
    """A command of several verbs, each a command of its own: `schedule put`. Without a verb it is the first."""

    def __init__(self, summary: str, verbs: dict[str, Command], examples: str) -> None:
        self.summary = summary
        self.verbs = verbs
        self.examples = examples


class Formatter(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal, without importing shutil to find that out: argparse makes one for every option."""

    def __init__(self, prog: str) -> None:
        try:
            width = os.get_terminal_size().columns
        except OSError:
            width = 100
        super().__init__(prog, width=max(60, min(120, width) - 2), max_help_position=30)


class Parser(argparse.ArgumentParser):
    takes_command = False
    takes_command_behind_dashes = False

    def understand(self, words: list[str]) -> Namespace:
        """Options may stand anywhere, but not behind a command of its own: what follows its first word, or the first
        `--`, is the command's and nobody else's."""
        place = words.index("--") if "--" in words else len(words)
        if self.takes_command_behind_dashes:
            found = self.parse_intermixed_args(words[:place])
            found.command = words[place + 1 :]
            return found
        if not self.takes_command:
            return self.parse_intermixed_args(words)
        found = self.parse_args(words[:place])
        found.command += words[place if found.command else place + 1 :]
        return found

    def error(self, message: str) -> Any:
        """argparse's sentence in ours, with the option that is nearest to a wrong one."""
        message = re.sub(r"^argument ", "", message)
        unknown = re.fullmatch(r"unrecognized arguments: (.*)", message, re.DOTALL)
        hint = f"`{self.prog} --help` tells more"
        if unknown is not None:
            wrong = unknown[1].split()[0]
            message = f"{wrong} is not known here"
            hint = self._nearest(wrong) or hint
        raise Failed(f"{self.prog.partition(' ')[2]}: {message}", USAGE, hint)

    def _nearest(self, wrong: str) -> str:
        import difflib  # noqa: PLC0415

        near = difflib.get_close_matches(wrong.partition("=")[0], self._option_string_actions, 1)
        return f"did you mean {near[0]}?" if near else ""


def chosen(name: str, command: Command | Verbs, words: list[str]) -> tuple[str, Command, list[str]]:
    """The command that is meant, by its whole name, and the words that are left for it."""
    if isinstance(command, Command):
        return name, command, words
    place = next((number for number, word in enumerate(words) if word not in EVERYWHERE), len(words))
    verb = words[place] if place < len(words) else ""
    if verb in ("-h", "--help"):
        return name, _about(name, command), words
    if not verb or verb.startswith("-"):
        verb = next(iter(command.verbs))
    elif verb not in command.verbs:
        raise Failed(f"{name}: there is no {verb}", USAGE, _near(verb, command))
    else:
        words = words[:place] + words[place + 1 :]
    return f"{name} {verb}", command.verbs[verb], words


def _near(verb: str, command: Verbs) -> str:
    import difflib  # noqa: PLC0415

    near = difflib.get_close_matches(verb, command.verbs, 1)
    return f"did you mean {near[0]}?" if near else ", ".join(command.verbs)


def _about(name: str, command: Verbs) -> Command:
    """Only for its help."""
    told = "\n".join(f"{verb:<9} {one.summary}" for verb, one in command.verbs.items())
    usage = f"[VERB] …      `semantica {name} VERB --help` shows its options"

    def verbs(parser: Parser) -> None:
        parser.add_argument_group("verbs", told)

    return Command(command.summary, lambda _, __: 0, verbs, command.examples, usage)


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
    # What is taken for a value although it begins as an option does: -5m, of which is then said that it is no duration.
    parser._negative_number_matcher = re.compile(r"-\d")
    command.options(parser)
    shared = parser.add_argument_group("with every command")
    shared.add_argument("--json", action="store_true", dest="as_json", help="JSON on stdout, in a stable shape")
    shared.add_argument("-q", "--quiet", action="store_true", help="nothing but data; of jobs only the ids")
    shared.add_argument("--no-autostart", action="store_true", help="do not start the daemon when there is none")
    shared.add_argument("-h", "--help", action="help", help="show this and leave")
    return parser


def of(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for argparse whose own words reach the user."""

    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
