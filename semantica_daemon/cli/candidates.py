"""What can stand at the end of an unfinished command line, from the declarations of the commands: `completions.py`
gives it to the shell, `live_values.py` asks the daemon for names."""

from collections.abc import Iterator

from semantica_daemon.cli import format, live_values
from semantica_daemon.cli.command import Command, Group, Option, Options, Subcommands
from semantica_daemon.cli.commands import COMMANDS, first_word, load
from semantica_daemon.cli.list import ALL_STATES, STATE_GROUPS
from semantica_daemon.cli.live_values import Candidates
from semantica_daemon.cli.parser import SHARED
from semantica_daemon.paths import Paths

# The shell completes these itself: the name of a file; the command of a job, of which so many words are complete.
FILES = ":files"
JOB_COMMAND = ":command"
NAMES_OF_FILES = ("DIR", "PATH", "FILE")
# The kind of live values, by the name of the option or of the value.
KIND_OF = {
    "ID": "job", "--job": "job", "--needs": "job", "ID|GROUP": "job", "QUEUE": "queue", "--queue": "queue",
    "GROUP": "group", "--group": "group", "--subject": "subject", "--type": "type", "--schedule": "schedule",
    "--tag": "tag", "--template": "template", "METHOD": "method",
}  # fmt: skip
STATES = [state.lower() for state in (*ALL_STATES, *STATE_GROUPS)]
LONGEST_DESCRIPTION = 80


def candidates(words: list[str], paths: Paths) -> Candidates:
    """The last of the words, which may be empty, is the unfinished one. Each candidate begins with it."""
    *before, word = words
    option, equals, part = word.partition("=")
    if equals and word != "=" and option.startswith("--"):
        return [(f"{option}={value}", about) for value, about in candidates([*before, option, part], paths)]
    word = "" if word == "=" else word  # bash splits --tag=x into three words
    found = [one for one in _after(before, word, paths) if one[0].startswith((word, ":"))]
    return [(value, format.clean(about)[:LONGEST_DESCRIPTION]) for value, about in found]


def _after(before: list[str], word: str, paths: Paths) -> Candidates:
    """What can follow these words."""
    place = first_word(before)
    if place == len(before):
        return _option_names([SHARED]) if word.startswith("-") else [(name, "") for name in COMMANDS]
    name, rest = before[place], before[place + 1 :]
    if name not in COMMANDS:
        return []
    command = load(name)
    if isinstance(command, Command):
        return _arguments(name, command, rest, word, paths)
    assert isinstance(command, Subcommands)
    place = first_word(rest)
    if place == len(rest):
        first = next(iter(command.commands.values()))
        names = [(name, one.summary) for name, one in command.commands.items()]
        return _option_names([*first.options, SHARED]) if word.startswith("-") else names
    chosen = command.commands.get(rest[place])
    return [] if chosen is None else _arguments(name, chosen, rest[place + 1 :], word, paths)


def _arguments(name: str, command: Command, given: list[str], word: str, paths: Paths) -> Candidates:
    """What can follow these words of the command."""
    options = {name: one for one in _flat([*command.options, SHARED]) for name in one.names}
    positional = [one for name, one in options.items() if not name.startswith("-")]
    awaited: Option | None = None
    for number, one in enumerate(given):
        if awaited is not None and one != "=":
            awaited = None
        elif one == "--" or _begins_command(one, positional):
            return [(f"{JOB_COMMAND} {len(given) - number - (one == '--')}", "")]
        elif one in options:
            awaited = options[one] if _takes_value(options[one]) else None
        elif one != "=" and positional and positional[0].settings.get("nargs") not in ("+", "*"):
            positional.pop(0)
    if awaited is None and word.startswith("-"):
        return _option_names([*command.options, SHARED])
    wanted = awaited or next(iter(positional), None)
    return [] if wanted is None else _values(name, wanted, word, paths)


def _begins_command(word: str, positional: list[Option]) -> bool:
    return not word.startswith("-") and bool(positional) and positional[0].dest == "command"


def _flat(options: Options) -> Iterator[Option]:
    for one in options:
        if isinstance(one, Group):
            yield from _flat(one.options)
        else:
            yield one


def _takes_value(option: Option) -> bool:
    return "metavar" in option.settings or "choices" in option.settings


def _option_names(options: Options) -> Candidates:
    shown = [one for one in _flat(options) if one.names[0].startswith("-") and not one.is_hidden]
    return [(one.names[-1], one.settings["help"]) for one in shown]


def _values(command: str, option: Option, word: str, paths: Paths) -> Candidates:
    if "choices" in option.settings:
        return [(choice, "") for choice in option.settings["choices"]]
    metavar, name = option.settings["metavar"], option.names[-1]
    if name == "command":
        return [(f"{JOB_COMMAND} 0", "")]
    if metavar in NAMES_OF_FILES:
        return [(FILES, "")]
    if name == "--state":
        return [(state, "") for state in STATES]
    kind = KIND_OF.get(name) or KIND_OF.get(metavar)
    if name == "name" and command in ("schedule", "template"):
        kind = command
    return live_values.ask(kind, word, paths) if kind else []
