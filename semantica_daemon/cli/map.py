"""`semantica map`: runs a command once for each item, several at a time, as GNU parallel does; each item is a job.

`map_intake` adds the jobs, `map_run` follows them, `map_record` keeps what --resume needs.
"""

import shlex
import time
from contextlib import suppress

from semantica_daemon import prose
from semantica_daemon.cli import map_options, map_start
from semantica_daemon.cli.command import Any, Command, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.interrupts import Detached
from semantica_daemon.cli.map_intake import MapIntake
from semantica_daemon.cli.map_interrupts import MapInterrupts
from semantica_daemon.cli.map_items import Items
from semantica_daemon.cli.map_record import MapRecord, MapRecords
from semantica_daemon.cli.map_run import MapRun
from semantica_daemon.cli.map_view import MapView
from semantica_daemon.cli.payload import folder
from semantica_daemon.cli.replacement import Template
from semantica_daemon.cli.wakeup import wakeup
from semantica_daemon.client.errors import CallRefused, ConnectionLost
from semantica_daemon.client.exit_codes import NO_DAEMON
from semantica_daemon.client.pipeline import Pipeline

RUN_AGAIN = ("CANCELLED", "SUPERSEDED", "SKIPPED_TTL", "SKIPPED_DEADLINE")


def run(arguments: Any, terminal: Terminal) -> int:
    command, items = map_options.given(arguments, terminal)
    if arguments.dry_run:
        return _print_commands(command, items or Items([]), terminal)
    records, cwd = MapRecords(terminal.paths), folder(arguments.cwd)
    name = map_start.name_of(arguments, command, cwd, items, records)
    pipeline = Pipeline(terminal.paths, terminal.autostart, terminal.note, wakeup())
    resumes = arguments.resume is not None
    record, is_resumed = map_start.record_of(pipeline, records, name, command, cwd, resumes)
    if arguments.jobs:
        arguments.queue = map_start.limited_queue(pipeline, record, arguments.jobs, arguments.queue)
    run = _map_run(arguments, terminal, pipeline, record, items)
    run.is_resumed, run.adopts = is_resumed, items is None
    run.runs_again = (*RUN_AGAIN, "FAILED") if arguments.resume_failed else RUN_AGAIN
    return _follow(pipeline, records, run, terminal)


def _print_commands(command: list[str], items: Items, terminal: Terminal) -> int:
    template, number = Template(command), 0
    while items.first() is not None:
        number += 1
        terminal.print(shlex.join(template.argv(items.take(), number)))
    return 0


def _map_run(arguments: Any, terminal: Terminal, pipeline: Pipeline, record: MapRecord, items: Items | None) -> MapRun:
    spec = map_options.job_spec(arguments, record.command, record.label)
    environment = spec.pop("environment", None)
    template = Template(record.command)
    intake = MapIntake(pipeline, items or Items([]), template, spec, environment, arguments.duplicates)
    view = MapView(arguments, terminal, intake.texts)
    return MapRun(pipeline, record, intake, view, arguments.halt, arguments.keep_order)


def _follow(pipeline: Pipeline, records: MapRecords, run: MapRun, terminal: Terminal) -> int:
    record, began = run.record, time.monotonic()

    def keep() -> None:
        record.sequence = run.cursor
        record.taken, record.is_complete = run.taken, run.all_were_taken
        records.keep(record)

    interrupts = MapInterrupts(terminal, run)
    try:
        run.begin_at(record.sequence)
        since = map_start.replay(pipeline, record, run) if run.is_resumed else record.sequence
        if run.adopts:
            map_start.adopt_all(pipeline, record, run)
        map_start.subscribe(pipeline, record, run, since)
        run.follow(keep)
        keep()
        map_start.remove_queue(pipeline, record)
    except Detached:
        keep()
        return interrupts.exit_code
    except BrokenPipeError:  # as `run` does
        with suppress(CallRefused, ConnectionLost):
            pipeline.call("job.cancel", chain_group_id=record.label, reason="nobody reads its output")
        raise
    except ConnectionLost as lost:
        keep()
        hint = f"`semantica map --resume {record.name}` goes on with it"
        problem = f"{lost}; {prose.count(run.left, 'item')} of map {record.name} had not ended"
        raise CommandFailed(problem, hint, NO_DAEMON) from None
    run.summarize(time.monotonic() - began)
    return interrupts.exit_code if interrupts.has_cancelled else run.exit_code()


COMMAND = Command(
    "Run a command once for each item, several at a time. Each item is a job, which outlives this command.",
    run,
    map_options.OPTIONS,
    """
  semantica map -j 4 -- gzip {} ::: *.log
  ls *.png | semantica map --tag -- convert {} {.}.jpg
  find . -name '*.py' -print0 | semantica map -0 --retries 3 -- ./check {}
  semantica map --halt now,fail=1 -k -- sh -c 'test -s "$1" && echo ok' sh {} ::: a b c
  semantica map --resume                   go on with the newest map
  seq 100000 | semantica map --name big --resume -- ./step {}     start it, or go on with it

{} is the item, {.} without its extension, {/} its last part, {//} its folder, {/.} the last part without extension, {#}
its number. Without any of them the item is appended. No shell is involved unless the command is one.
Returns 0 when all items succeeded, else how many failed, at most 101; after --halt fail=1 the code of that job.
With --json: one line for each item that has ended; the output stays in the log.""",
    "[options] [--] COMMAND [ARGUMENT …] [::: ITEM …]\n       semantica map [options] --resume [NAME]",
)
