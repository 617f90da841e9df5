"""The options of `semantica map`, and what they say: the command, the items, and the fields that all jobs have."""

import argparse
import os
import sys

from semantica_daemon.cli import halt, job_options, payload
from semantica_daemon.cli.command import Any, Group, Json, Option, Options, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.map_items import NO_DESCRIPTOR, Items
from semantica_daemon.cli.map_record import checked_name
from semantica_daemon.cli.parser import positive
from semantica_daemon.client.exit_codes import DATA

WORDS = ":::"
KEY_TTL_MS = 30 * 86_400_000
PRIORITY = job_options.PRIORITIES["low"]
# Options of `add` that a map has too, by the field that they set.
SHARED_FIELDS = (
    "queue", "priority", "timeout_ms", "grace_ms", "backoff_max_ms", "leftovers", "limits.memory_bytes",
    "limits.cpu_percent", "limits.nice",
)  # fmt: skip


def jobs(text: str) -> int:
    """A number, or a percentage of the processors; 0: as many as the queue allows."""
    number = text.removesuffix("%")
    if not number.isdecimal():
        raise ValueError(f"{text!r} is not a number of jobs: write 4, or 50% of the processors")
    if number == text:
        return int(text)
    return max(1, int(number) * (os.cpu_count() or 1) // 100)


def given(arguments: Any, terminal: Terminal) -> tuple[list[str], Items | None]:
    """The command, and the items that are read. Without a command, which --resume allows, no items are read."""
    command, items = arguments.command, None
    if WORDS in command:
        place = command.index(WORDS)
        command, items = command[:place], command[place + 1 :]
    if items is not None and WORDS in items:
        raise CommandFailed("::: is given twice", "give all items after one :::")
    if not command:
        if arguments.resume is None or items:
            hint = "semantica map -- COMMAND {} ::: ITEM …, or items on stdin, one in each line"
            raise CommandFailed("map: there is no command", hint)
        return [], None
    if items is not None:
        return command, Items(items)
    return command, Items([], _stream(arguments, terminal), b"\0" if arguments.null else b"\n")


def _stream(arguments: Any, terminal: Terminal) -> int:
    if arguments.arg_file is not None:
        try:
            return os.open(arguments.arg_file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CommandFailed(f"--arg-file {arguments.arg_file}: {error.strerror}", exit_code=DATA) from None
    if sys.stdin is None:
        return NO_DESCRIPTOR
    if sys.stdin.isatty():
        terminal.note("reading the items from this terminal, one in each line; Ctrl-D ends them")
    return sys.stdin.fileno()


def job_spec(arguments: Any, command: list[str], label: str) -> Json:
    """The fields that the jobs of all items have."""
    arguments.__dict__.update({**_not_given(), **arguments.__dict__, "command": command})
    spec: Json = {"priority": PRIORITY, "on_interrupt": "requeue"}
    limits: Json = {}
    for field in SHARED_FIELDS:
        value = getattr(arguments, job_options.FIELDS[field].dest)
        if value is not None:
            part = limits if field.startswith("limits.") else spec
            part[field.removeprefix("limits.")] = value
    if arguments.on_interrupt is not None:
        spec["on_interrupt"] = arguments.on_interrupt
    if arguments.retries > 1:
        spec["max_attempts"] = arguments.retries
    labels = {"chain_group_id": label, "user_tag": label, "supersede": "none"}
    keys = {"idempotency_match": "key", "idempotency_ttl_ms": KEY_TTL_MS}
    spec |= arguments.backoff or {}
    return {**spec, **({"limits": limits} if limits else {}), **labels, **keys, **payload.fields(arguments)}


def _not_given() -> Json:
    """The options of `add`, on which `payload` depends, as they are when they are not given."""
    groups = [one if isinstance(one, Group) else Group("", [one]) for one in job_options.OF_ADD]
    options = [one for group in groups for one in group.options]
    is_flag = {one.dest: one.settings.get("action") == "store_true" for one in options}
    return {one.dest: one.settings.get("default", False if is_flag[one.dest] else None) for one in options}


COMMAND = Option("command COMMAND", "the command and its arguments; ::: begins the items", nargs=argparse.REMAINDER)
ITEMS = Group("items", [
    Option("-a, --arg-file FILE", "read the items from this file instead of stdin"),
    Option("-0, --null", "items end with a NUL byte instead of a newline: find -print0 | semantica map -0 …"),
    Option("--duplicates", "run an item that is given twice twice (default: once)"),
])  # fmt: skip
RUNS = Group("how they are run", [
    Option("-j, --jobs N", "at most N at once, or a percentage of the processors (0: as the queue allows)", jobs),
    Option("--retries N", "run an item up to N times until it succeeds (1)", positive, default=1),
    Option("--halt WHEN", "when to give up: never, soon,fail=N (let running jobs end) or now,fail=N (cancel them); "
           "success=N and done=N instead of fail, N also as a percentage", halt.halt),
    Option("--on-interrupt {requeue,fail}",
           "an item that is running when the daemon is stopped or dies is run again (requeue), or fails"),
    *(one for one in job_options.RUNS.options if one.dest == "backoff"),
    *(job_options.FIELDS[field] for field in SHARED_FIELDS),
    *(one for one in job_options.WHAT_IS_RUN if one.dest in ("cwd", "umask", "env", "clean_env")),
])  # fmt: skip
OUTPUT = Group("output", [
    Option("-k, --keep-order", "print the output in the order of the items"),
    Option("--tag", "begin each line of output with the item and a tab"),
    Option("--results DIR", "write the output to DIR/1/ITEM/stdout and stderr as well"),
    Option("--bar", "a progress bar on stderr, also when that is not a terminal"),
    Option("--no-bar", "no progress bar; without --bar there is one only on a terminal"),
    Option("--dry-run", "print the commands and run none"),
], "the output of each job is printed as a whole when it has ended")  # fmt: skip
AGAIN = Group("coming back", [
    Option("--resume NAME", "go on with a map: items that are done are not run again (default: that of this command)",
           lambda text: text and checked_name(text), nargs="?", const=""),
    Option("--resume-failed", "as --resume, and run items that have failed once more"),
    Option("--name NAME", "name of the map (default: by the command and its items)", checked_name),
], "Ctrl-C leaves the jobs running; a second one within 2 s cancels them")  # fmt: skip
OPTIONS: Options = [COMMAND, ITEMS, RUNS, OUTPUT, AGAIN]
