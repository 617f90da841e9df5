"""The manual page semantica(1) in roff, from the declarations of the commands. hatch_build.py calls it for a wheel or a
source distribution, so that the page describes the version it comes with."""

import sys
from collections.abc import Iterator

from semantica_daemon import VERSION
from semantica_daemon.cli.command import Command, Group, Option, Options, Subcommands
from semantica_daemon.cli.commands import COMMANDS, EXIT_CODES, OVERVIEW, load
from semantica_daemon.cli.parser import SHARED

SHOWN = {"?": "[{}]", "*": "[{} …]", "+": "{} …", "...": "{} …"}
ENVIRONMENT = {
    "SEMANTICA_HOME": "A folder for everything: configuration, database, logs and socket.",
    "SEMANTICA_SOCKET": "The path of the socket alone.",
    "SEMANTICA_DEBUG": "With any value, an error inside semantica is shown with its traceback.",
}


def page() -> str:
    title, *_ = OVERVIEW.partition("\n")
    name, _, purpose = title.partition(": ")
    lines = [
        f'.TH SEMANTICA 1 "" "semantica {VERSION}" "User Commands"',
        ".SH NAME",
        f"{name} \\- {_text(purpose)}",
        ".SH SYNOPSIS",
        "\\fBsemantica\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR …] [\\fIARGUMENT\\fR …]",
        ".SH DESCRIPTION",
        *_verbatim(OVERVIEW.partition("\n\n")[2]),
        ".SH OPTIONS OF EVERY COMMAND",
        *_options(SHARED.options),
        ".SH COMMANDS",
        *(line for name in COMMANDS if name != "ls" for line in _command(name)),
        ".SH EXIT STATUS",
        *_verbatim(EXIT_CODES.partition("\n")[2]),
        ".SH ENVIRONMENT",
        *(line for name, text in ENVIRONMENT.items() for line in (".TP", f"\\fB{name}\\fR", _text(text))),
        ".SH FILES",
        "\\fBsemantica paths\\fR shows where the configuration, the database, the log and the socket are.",
        ".SH SEE ALSO",
        "\\fBat\\fR(1), \\fBcrontab\\fR(1), \\fBsystemctl\\fR(1)",
    ]
    return "\n".join([*lines, ""])


def _command(name: str) -> Iterator[str]:
    command = load(name)
    if isinstance(command, Command):
        yield from _section(name, command)
        return
    assert isinstance(command, Subcommands)
    yield from (f".SS semantica {name}", _text(command.summary), *_examples(command.examples))
    for chosen, one in command.commands.items():
        yield from _section(f"{name} {chosen}", one)


def _section(name: str, command: Command) -> Iterator[str]:
    yield from (f".SS semantica {name} {_text(_arguments(command))}".rstrip(), _text(command.summary))
    yield from _options(command.options)
    yield from _examples(command.examples)


def _arguments(command: Command) -> str:
    if command.usage is not None:
        return command.usage
    given = [one for one in command.options if isinstance(one, Option) and not one.names[0].startswith("-")]
    shown = (SHOWN.get(one.settings.get("nargs", ""), "{}").format(_value(one)) for one in given)
    return " ".join(shown) + (" -- COMMAND …" if command.after_dashes else "")


def _options(options: Options) -> Iterator[str]:
    for one in options:
        if isinstance(one, Option) and one.is_hidden:
            continue
        if isinstance(one, Option):
            names = [f"\\fB{_text(name)}\\fR" for name in one.names if name.startswith("-")]
            values = [f"\\fI{_text(_value(one))}\\fR"] if _value(one) else []
            yield from (".TP", " ".join(filter(None, (", ".join(names), *values))), _text(one.settings["help"]))
            continue
        assert isinstance(one, Group)
        if one.title:
            yield from (".PP", f"\\fB{_text(one.title)}\\fR")
        if one.description:
            yield from (".br", _text(one.description))
        yield from _options(one.options)


def _value(option: Option) -> str:
    choices = option.settings.get("choices")
    return f"{{{','.join(choices)}}}" if choices else str(option.settings.get("metavar", ""))


def _examples(examples: str) -> list[str]:
    return [".PP", "Examples:", *_verbatim(examples)] if examples else []


def _verbatim(text: str) -> list[str]:
    return [".PP", ".nf", *(_text(line) for line in text.strip("\n").splitlines()), ".fi"]


def _text(text: str) -> str:
    """A line that is no request of roff, with each of its characters shown as it is."""
    escaped = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")
    )
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    sys.stdout.write(page())
