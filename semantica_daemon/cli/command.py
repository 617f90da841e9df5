"""The declaration of a command: summary, function, options, examples."""

from collections.abc import Callable

from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.json_types import Any


class Command:
    """`run` carries it out and returns the exit code; `options` adds its options to the parser."""

    def __init__(
        self,
        summary: str,
        run: Callable[[Any, Terminal], int],
        options: Callable[[Any], None] = lambda _: None,
        examples: str = "",
        usage: str | None = None,
    ) -> None:
        self.summary = summary
        self.run = run
        self.options = options
        self.examples = examples
        self.usage = usage


class Subcommands:
    """A command with subcommands, such as `schedule put`. Without a subcommand the first one runs."""

    def __init__(self, summary: str, commands: dict[str, Command], examples: str) -> None:
        self.summary = summary
        self.commands = commands
        self.examples = examples
