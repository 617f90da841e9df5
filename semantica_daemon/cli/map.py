"""`semantica map`: runs a command once for each item, several at a time, as GNU parallel does; each item is a job.

`map_intake` adds the jobs, `map_run` follows them, `map_record` keeps what --resume needs.
"""

import os
import shlex
import time
from contextlib import suppress

from semantica_daemon import prose
from semantica_daemon.cli import map_earlier, map_options, map_start
from semantica_daemon.cli.command import Any, Command, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.halt import halt
from semantica_daemon.cli.interrupts import Detached
from semantica_daemon.cli.map_intake import MapIntake
from semantica_daemon.cli.map_interrupts import MapInterrupts
from semantica_daemon.cli.map_items import Items
from semantica_daemon.cli.map_record import MapRecords
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
    if arguments.resume_failed and arguments.resume is None:
        arguments.resume = ""
    command, items = map_options.given(arguments, terminal)
    if arguments.dry_run:
        return _print_commands(command, items or Items([]), terminal)
    records, cwd = MapRecords(terminal.paths), folder(arguments.cwd)
    name = map_start.name_of(arguments, command, cwd, items, records)
    pipeline = Pipeline(terminal.paths, terminal.autostart, terminal.note, wakeup())
    record, is_resumed = map_start.record_of(pipeline, records, name, command, cwd, arguments)
    if arguments.jobs not in (None, record.jobs):
        terminal.note(f"map {name} goes on with --jobs {record.jobs}, as it was begun")
    spec = map_options.job_spec(arguments, record.command, record.label)
    intake = MapIntake(pipeline, items or Items([]), Template(record.command), spec, arguments.duplicates)
    view = MapView(arguments, terminal, intake.texts)
    run = MapRun(pipeline, record, intake, view, arguments.halt or halt(record.halt), arguments.keep_order)
    if run.halt.counts_ends:
        most = record.jobs or os.cpu_count() or 1
        intake.room = lambda: most - run.left
    run.is_resumed = is_resumed
    run.runs_again = (*RUN_AGAIN, "FAILED") if arguments.resume_failed else RUN_AGAIN
    earlier = map_earlier.EarlierJobs(pipeline, run, intake) if items is None else None
    return _Following(pipeline, records, run, terminal).follow(earlier)


def _print_commands(command: list[str], items: Items, terminal: Terminal) -> int:
    template, number = Template(command), 0
    while items.first() is not None:
        number += 1
        terminal.print(shlex.join(template.argv(items.take(), number)))
    return 0


class _Following:
    """Follows a map and turns how that ends into an exit code."""

    def __init__(self, pipeline: Pipeline, records: MapRecords, run: MapRun, terminal: Terminal) -> None:
        self._pipeline = pipeline
        self._records = records
        self._run = run
        self._record = run.record
        self._began = time.monotonic()
        self._interrupts = MapInterrupts(terminal, run)

    def follow(self, earlier: map_earlier.EarlierJobs | None) -> int:
        """`earlier`: of a map that is resumed without its items."""
        try:
            self._begin(earlier)
            self._run.follow(self._keep)
            self._keep()
        except Detached:
            self._keep()
            return self._interrupts.exit_code
        except BrokenPipeError:  # as `run` does
            with suppress(CallRefused, ConnectionLost):
                label, reason = self._record.label, "nobody reads its output"
                self._pipeline.call("job.cancel", chain_group_id=label, reason=reason)
            raise
        except ConnectionLost as lost:
            self._keep()
            raise self._lost(lost) from None
        self._run.summarize(time.monotonic() - self._began)
        return self._interrupts.exit_code if self._interrupts.has_cancelled else self._run.exit_code()

    def _begin(self, earlier: map_earlier.EarlierJobs | None) -> None:
        run, record = self._run, self._record
        run.begin_at(record.sequence)
        since = map_earlier.replay(self._pipeline, record, run) if run.is_resumed else record.sequence
        if earlier is not None:
            earlier.take_up()
        map_earlier.subscribe(self._pipeline, record, run, since)

    def _keep(self) -> None:
        """Stores how far the map is, for --resume."""
        run, record = self._run, self._record
        record.sequence = run.cursor
        record.taken = max(record.taken, run.taken)
        record.is_complete = record.is_complete or run.all_were_taken
        with suppress(CommandFailed):  # output that was printed is printed again, and nothing else
            self._records.keep(record)

    def _lost(self, lost: ConnectionLost) -> CommandFailed:
        name = self._record.name
        problem = f"{lost}; {prose.count(self._run.left, 'item')} of map {name} had not ended"
        return CommandFailed(problem, f"`semantica map --resume {name}` goes on with it", NO_DAEMON)


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
