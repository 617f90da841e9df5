"""What every command file imports: the declaration of a command and of its options, the terminal, the JSON types."""

import argparse
from collections.abc import Callable, Mapping, Sequence

from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.json_types import Any, Json

__all__ = [
    "HIDDEN", "NAME", "Any", "Command", "Group", "Json", "Option", "Options", "Subcommands", "Terminal", "each_name"
]  # fmt: skip

HIDDEN = argparse.SUPPRESS  # as the help of an option that no help, manual or completion shows; compared by identity


class Option:
    """An option or a positional argument. `usage` has its names and the name or the choices of its value, as in
    `-Q, --queue NAME`; an option without a value is a flag. `type` converts the value and may raise ValueError, `field`
    is the field of a call that it sets, `settings` are further arguments of argparse's add_argument."""

    def __init__(
        self, usage: str, help: str, type: Callable[[str], Any] | None = None, field: str = "", **settings: Any
    ) -> None:
        names, _, value = usage.rpartition(" ")
        if value.startswith("-"):
            names = usage
            settings.setdefault("action", "store_true")
        elif value.startswith("{"):
            settings["choices"] = value[1:-1].split(",")
        else:
            settings["metavar"] = value
        self.names = names.split(", ")
        self.dest = self.names[-1].lstrip("-").replace("-", "_")
        self.type = type
        self.field = field
        self.is_hidden = help is HIDDEN
        self.settings: Json = {"help": help, **settings}


class Group:
    """Options under a title of their own in the help. Without a title they exclude each other."""

    def __init__(self, title: str, options: Sequence[Option], description: str | None = None) -> None:
        self.title = title
        self.options = options
        self.description = description


Options = Sequence[Option | Group]
NAME = Option("name NAME", "its name or its id")
NAMES = Option("name NAME", "names or ids", nargs="+")


class Command:
    """`run` carries it out and returns the exit code; None is 0. `after_dashes`: the job's command follows `--`."""

    def __init__(
        self,
        summary: str,
        run: Callable[[Any, Terminal], int | None],
        options: Options = (),
        examples: str = "",
        usage: str | None = None,
        after_dashes: bool = False,
    ) -> None:
        self.summary = summary
        self.run = run
        self.options = options
        self.examples = examples
        self.usage = usage
        self.after_dashes = after_dashes


class Subcommands:
    """A command with subcommands, such as `schedule put`. Without a subcommand the first one runs."""

    def __init__(self, summary: str, commands: Mapping[str, Command], examples: str) -> None:
        self.summary = summary
        self.commands = commands
        self.examples = examples


def each_name(method: str, summary: str, example: str, sentence: Callable[[Json, Terminal], str]) -> Command:
    """A subcommand that calls `schedule.METHOD` or `template.METHOD` for each name given, and notes a sentence."""
    kind, verb = method.split(".")

    def run(arguments: Any, terminal: Terminal) -> None:
        with terminal.client() as client:
            for name in arguments.name:
                done = client.call(method, **{f"{kind}_id": name})
                if terminal.as_json:
                    terminal.print_json(done, lines=len(arguments.name) > 1)
                terminal.note(f"{kind} {name} {sentence(done, terminal)}")

    return Command(summary, run, [NAMES], f"semantica {kind} {verb} {example}")
