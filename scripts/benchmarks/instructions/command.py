"""`scripts/bench --instructions`: measures the chosen figures and compares them with budgets and targets."""

import compileall
import sys
from collections.abc import Callable, Iterator

from benchmarks.instructions import client_figure, daemon_figures, store_figures, valgrind
from benchmarks.instructions.budget import TOLERANCE, Budgets, versions
from benchmarks.results import columns

GROUPS: dict[str, Callable[[], dict[str, float]]] = {
    "commits": store_figures.commits,
    "guard": store_figures.guard,
    "store": store_figures.store,
    "floor": store_figures.floor,
    "enqueue": daemon_figures.enqueue,
    "single": daemon_figures.single,
    "inflight": daemon_figures.inflight,
    "noop": daemon_figures.noop,
    "true": daemon_figures.true,
    "add": client_figure.add,
}
USUAL = [name for name in GROUPS if name != "guard"]  # `store` has both of its figures
TARGETS = {
    "enqueue": 200_000, "single": 420_000, "inflight": 210_000, "noop32": 350_000, "noop2": 450_000,
    "true-daemon": 800_000, "true-supervisor": 150_000, "add": 40_000_000,
    "frames-enqueue": 6, "frames-claim": 5, "frames-finish": 7,
}  # fmt: skip
MOST_WITH_HISTORY = 1.1
HEADINGS = ("figure", "measured", "budget", "target", "")
HELP = f"""\
Instructions (--instructions): user instructions a job, counted by valgrind, which repeat where seconds do not. Each is
the difference between 2N and N jobs, divided by N. "target" is the goal. "budget" is the recorded value for these
versions of Python and SQLite (scripts/benchmarks/budgets.json): {TOLERANCE - 1:.0%} more is OVER, and the exit code 1.
  commits   WAL frames (pages) and SQL statements of a commit of one job; needs no valgrind
  store     the store alone, 100 jobs a transaction: enqueue, claim, finish, and run = claim + finish
  guard     of those only enqueue and run: the two that the tests check
  floor     the reference floor (scripts/benchmarks/floor.py): the leanest SQL that keeps the same promises
  enqueue   the whole daemon, enqueues that arrive 100 at a time
  single    the same, the next only after the reply
  inflight  the same, on one connection that never waits for replies: as many in flight as it allows
  noop      a no-op job from its claim to DONE, with 32 and with 2 slots
  true      /bin/true with 2 slots: the daemon, and its supervisor
  add       one whole `semantica add -- true`, without and with what pip and site add; and bare interpreters
With --history N: the figures of `store` on an empty database and on one with N finished jobs, and nothing else.
"""


def main(only: list[str], record: bool, history: int) -> int:
    """1 when a figure is over its budget."""
    compile_sources()
    if history:
        return compare_with_history(history)
    budgets = Budgets()
    found = dict(measured(only or USUAL))
    if record:
        budgets.record(found)
    sys.stdout.write(columns([HEADINGS, *(cells(budgets, figure, value) for figure, value in found.items())]))
    return int(any(budgets.is_over(figure, value) for figure, value in found.items()))


def compare_with_history(history: int) -> int:
    """Exact where seconds are not: the store's figures on an empty database and on a full one."""
    empty, full = store_figures.store(), store_figures.aged(history)
    rows = [("figure", "empty", f"{history:,} finished", "ratio", "")]
    for figure, value in empty.items():
        ratio = full[figure] / value
        verdict = "PASS" if ratio <= MOST_WITH_HISTORY else "MISS"
        rows.append((figure, f"{value:,.0f}", f"{full[figure]:,.0f}", f"{ratio:.3f}", verdict))
    sys.stdout.write(columns(rows))
    return 0


def measured(only: list[str]) -> Iterator[tuple[str, float]]:
    for name in only:
        if name != "commits" and not valgrind.installed():
            sys.stderr.write(f"{name}: NOT TESTED, valgrind is not installed\n")
            continue
        sys.stderr.write(f"{name} …\n")
        yield from GROUPS[name]().items()


def cells(budgets: Budgets, figure: str, value: float) -> tuple[str, ...]:
    budget, target = budgets.of(figure), TARGETS.get(figure)
    verdict = "" if target is None else "PASS" if value <= target else "MISS"
    if budget is None:
        verdict = f"{verdict} NOT TESTED: no budget for this build of {versions()}"
    elif budgets.is_over(figure, value):
        verdict = f"{verdict} OVER"
    return (figure, f"{value:,.0f}", shown(budget), shown(target), verdict.strip())


def shown(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def compile_sources() -> None:
    """Else the first run of each figure would compile what it imports."""
    for folder in ("semantica_daemon", "scripts"):
        compileall.compile_dir(valgrind.SCRIPTS.parent / folder, quiet=1)
