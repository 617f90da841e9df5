"""scripts/bench: measures the daemon in turns with a floor, or counts its instructions."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks import chains, commands, figures, mapping, resting, results, spool, waiting, workers
from benchmarks.figures import Stand, Taken, hold
from benchmarks.floor import Floor
from benchmarks.history import fill
from benchmarks.instructions import command as instructions
from benchmarks.instructions.store_figures import STEPS, explain
from benchmarks.processes import Clients, Daemon, echo_server, other_work
from benchmarks.results import Figure, Result, Target

EPILOG = """\
Each figure is taken in turns (floor, daemon, floor, daemon …). "beside" is the floor, or with --history the same
daemon on an empty table; "ratio" is that of the medians, "spread" the smallest and largest ratio of two neighbours.
A spread that reaches over the target means: not decided, measure again on a quieter machine.

"floor" is a reference that never changes (scripts/benchmarks/floor.py): plain sqlite3 with the leanest schema that
keeps the same promises, 100 jobs a transaction or one, on rows made beforehand. One at a time, the floor is that plus a
round trip to an asyncio server that echoes lines. A figure without a target is only shown.

  enqueue   jobs a second, 8 clients that send without waiting; beside: rows inserted into the floor
  single    one client that waits for each reply, median; beside: a round trip and a commit of one job
  noop32    no-op jobs a second from enqueue to DONE, 32 slots; beside: insert, claim and finish on the floor
  noop2     the same with 2 slots
  start     from the request to the arrival of job.started, on an idle daemon, median
  true2     /bin/true until DONE, 2 slots; beside: subprocess.Popen("/bin/true").wait() in 2 threads
  true4     the same with 4 slots and threads
  true2big  true2 by a daemon that holds 300 MB
  log       a job that writes zeros as fast as it can; beside: head | cat > file
  add, run  `semantica add -- true`, `semantica run -- true`; beside: python -I -c pass
  spool     500 × `semantica add -- sh -c echo` until the last has ended, 2 slots, and one `semantica add --each` of
            500 lines; beside: the same with tsp, nq (one at a time) and xargs -P2, as far as they are installed
  map       10,000 × `semantica map -- /bin/true`, 2 slots; beside: the same with GNU parallel and xargs, as far as they
            are installed
  intake    items a second that `semantica map` takes, of 100,000, while none is run
  noisy     enqueue p99 while 2 jobs write without end; beside: the same daemon while it is quiet
  due       10,000 jobs due at one instant: how many a second are queued, and enqueue p99 meanwhile; beside: before
  chain     1,000 no-op jobs, each the parent of the next, 2 slots
  fanout    10,000 no-op children of one job until all are DONE, or CANCELLED with it; the longest enqueue meanwhile
  workers   jobs that 1 and 8 external workers claim and complete, a second, one job in each claim
  lateness  from the time of an AT job to the arrival of its job.started
  wakeups   how often an idle daemon with waiting jobs wakes up in a minute
  idle      CPU and memory of a daemon that never had a job
  memory    memory after 100,000 no-op jobs; beside: after 10,000
  restart   from SIGTERM, or kill -9, until the daemon is ready again

{instructions}
examples:
  scripts/bench                               all figures, 5 repeats: a few minutes
  scripts/bench --quick --only enqueue noop32 a first look, in seconds
  scripts/bench --history 1000000             also beside a table of a million finished jobs
  scripts/bench --json > after.json           every sample, to compare with another run
  scripts/bench --instructions                every figure in instructions: some minutes
  scripts/bench --instructions --only store commits
  scripts/bench --instructions --record       the same, and make the figures the new budget
  scripts/bench --explain enqueue             where the instructions of an enqueue in the store go
"""
TAKEN = [*figures.TAKEN, *commands.TAKEN]
OTHERS = (commands, spool, mapping, waiting, chains, workers, resting)
NAMES = [*(taken.figure.name for taken in TAKEN), *(name for module in OTHERS for name in module.NAMES)]


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure the daemon against a floor taken in the same run.",
        epilog=EPILOG.format(instructions=instructions.HELP),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--repeats", type=positive, metavar="N", help="samples of each figure (5; with --quick 3)")
    found.add_argument(
        "--only", nargs="+", metavar="NAME", choices=[*NAMES, *instructions.GROUPS], help="only these figures"
    )
    found.add_argument("--quick", action="store_true", help="fewer jobs and 3 repeats: a look, not a measurement")
    found.add_argument(
        "--history", type=positive, metavar="N", default=0, help="also with N finished jobs in the table"
    )
    found.add_argument("--json", action="store_true", help="JSON with every sample instead of the table")
    found.add_argument("--instructions", action="store_true", help="count instructions instead of time")
    found.add_argument("--record", action="store_true", help="with --instructions: write the budget file")
    found.add_argument(
        "--explain", metavar="STEP", choices=STEPS, help="split the store's instructions up to that step"
    )
    return found


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def log(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def warn_if_busy() -> None:
    """Figures that are measured beside other work are low and uneven."""
    others = other_work()
    if others > 0.1:
        log(f"warning: other processes take {others:.0%} of a core; the figures will be too low and uneven")


class Bench:
    """One run with a daemon on an empty database and, with --history, one on a full database."""

    def __init__(
        self, options: argparse.Namespace, folder: Path, stand: Stand, empty: Daemon, full: Daemon | None
    ) -> None:
        self._options = options
        self._folder = folder
        self._stand = stand
        self._empty = empty
        self._full = full
        self._repeats = options.repeats or (3 if options.quick else 5)

    def results(self) -> Iterator[Result]:
        chosen = [taken for taken in TAKEN if taken.figure.name in self._options.only]
        aged = []
        for taken in chosen:
            warn_if_busy()
            result, beside = self._in_turns(taken)
            yield result
            aged += [beside] if beside else []
        yield from aged
        yield from self._commands()
        yield from self._waiting()
        yield from self._resting()

    def _commands(self) -> Iterator[Result]:
        only, quick = self._options.only, self._options.quick
        if "true2big" in only:
            warn_if_busy()
            yield from commands.true2big(self._folder / "b", self._stand, self._repeats, 200 if quick else 1_000, log)
        if "noisy" in only:
            warn_if_busy()
            yield from commands.noisy(self._folder / "n", self._stand, self._repeats, 300 if quick else 2_000, log)
        if "spool" in only:
            warn_if_busy()
            yield from spool.spool(self._folder / "s", self._repeats, 50 if quick else 500, log)
        if "map" in only:
            warn_if_busy()
            yield from mapping.map_items(self._folder / "p", self._repeats, 500 if quick else 10_000, log)
        if "intake" in only:
            warn_if_busy()
            yield from mapping.intake(self._folder / "t", self._repeats, 10_000 if quick else 100_000, log)

    def _waiting(self) -> Iterator[Result]:
        only, quick = self._options.only, self._options.quick
        if "due" in only:
            warn_if_busy()
            yield from waiting.due(self._folder / "d", self._stand, self._repeats, 10_000, log)
        if "chain" in only:
            warn_if_busy()
            yield from chains.chain(self._folder / "c", self._repeats, 1_000, log)
        if "fanout" in only:
            warn_if_busy()
            yield from chains.fanout(self._folder / "o", self._stand, self._repeats, 10_000, log)
        if "workers" in only:
            warn_if_busy()
            yield from workers.workers(self._folder / "x", self._stand, self._repeats, 2_000 if quick else 10_000, log)
        if "lateness" in only:
            warn_if_busy()
            yield from waiting.lateness(self._folder / "l", self._repeats, 50 if quick else 250, log)
        if "wakeups" in only:
            yield from waiting.wakeups(self._folder / "w", log)

    def _resting(self) -> Iterator[Result]:
        """The full daemon is restarted when there is one."""
        only, quick = self._options.only, self._options.quick
        if "restart" in only:
            yield from resting.restart(self._full or self._empty, self._stand, self._repeats, log)
        if "idle" in only:
            yield from resting.idle(self._folder / "i", 1 if quick else self._repeats, log)
        if "memory" in only:
            yield from resting.memory(self._folder / "m", self._stand, 30_000 if quick else 100_000, log)

    def _in_turns(self, taken: Taken) -> tuple[Result, Result | None]:
        count = taken.quick if self._options.quick else taken.count
        floor: list[float] = []
        empty: list[float] = []
        full: list[float] = []
        self._turn(taken, max(count // 10, 10), [], [], [])
        for number in range(self._repeats):
            self._turn(taken, count, floor, empty, full)
            values = [results.shown(samples[-1], taken.figure.unit) for samples in (floor, empty, full) if samples]
            log(f"{taken.figure.name} {number + 1}/{self._repeats}: {'  '.join(values)}")
        return taken.figure.result(empty, floor or None), self._aged(taken, full, empty)

    def _turn(self, taken: Taken, count: int, floor: list[float], empty: list[float], full: list[float]) -> None:
        """Takes one sample of each, one after the other. The daemons take turns at being first: the disk may be busy
        with the writes of the first while the second is measured."""
        if taken.of_floor is not None:
            floor.append(taken.of_floor(self._stand, count))
        order = [(self._empty, empty)] if self._full is None else [(self._empty, empty), (self._full, full)]
        for daemon, samples in order if len(empty) % 2 == 0 else reversed(order):
            samples.append(taken.of_daemon(self._stand, daemon.with_slots(taken.slots), count))

    def _aged(self, taken: Taken, full: list[float], empty: list[float]) -> Result | None:
        if not full:
            return None
        figure = taken.figure
        name = f"{figure.what}, {self._options.history:,} finished"
        aged = Figure(f"{figure.name}+history", name, figure.unit, Target(1.1, False, "empty, slower"))
        return aged.result(full, empty, inverse=figure.unit.endswith("/s"))


@contextmanager
def prepared(options: argparse.Namespace, folder: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        clients = Clients()
        stack.callback(clients.close)
        floor = Floor(folder / "floor.db")
        stack.callback(floor.close)
        stand = Stand(clients, floor, stack.enter_context(echo_server(folder / "echo.sock")), folder)
        empty = opened(stack, folder / "e")
        full = None
        if options.history:
            (folder / "f").mkdir(mode=0o700)
            fill(folder / "f", options.history, log)
            full = opened(stack, folder / "f")
        yield Bench(options, folder, stand, empty, full)


def opened(stack: ExitStack, home: Path) -> Daemon:
    daemon = Daemon(home, slots=32)
    stack.callback(daemon.end)
    hold(daemon.start())
    return daemon


def main() -> int:
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.instructions:
        return instructions.main(options.only or [], options.record, options.history)
    if options.explain:
        sys.stdout.write(explain(options.explain))
        return 0
    options.only = options.only or NAMES
    with tempfile.TemporaryDirectory(prefix="sb-") as name, prepared(options, Path(name)) as bench:
        found = list(bench.results())
    if options.json:
        sys.stdout.buffer.write(results.document(found, vars(options)))
    else:
        sys.stdout.write(results.table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
