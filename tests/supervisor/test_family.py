"""Whose an orphan is, as a table: by mark, number, session or group, else by who was there when it began."""

import pytest

from semantica_daemon.supervisor.family import NOBODY, UNCLEAR, run_of
from semantica_daemon.supervisor.order import Order
from semantica_daemon.supervisor.processes import Process
from semantica_daemon.supervisor.run import Run


def run(name: str, number: int, pid: int, started_at: int) -> Run:
    """A run as the supervisor holds it, without a process of its own."""
    made = object.__new__(Run)
    made.order = Order(name, ["x"], "/", {}, 0, None, "", "", "", "", 0, "end")
    made.number, made.pid, made.started_at = number, pid, started_at
    return made


def process(group: int = 900, session: int = 900, started_at: int = 50) -> Process:
    return Process(900, 1, group, session, started_at, "orphan")


A, B = run("a", 1, 100, 10), run("b", 2, 200, 40)
BARE = run("bare", 0, 300, 10)
Z = {"z": 9}
TABLE: dict[str, tuple[Process, str | None, int, list[Run], dict[str, int], str | None]] = {
    "its mark says so": (process(), "a", 0, [A, B], {}, "a"),
    "its mark says so, whatever its group": (process(group=200, session=200), "a", 0, [A, B], {}, "a"),
    "its mark says so, whatever its number": (process(), "a", 2, [A, B], {}, "a"),
    "no mark, but the number": (process(), None, 2, [A, B], Z, "b"),
    "no mark, but the session": (process(session=200), None, 0, [A, B], {}, "b"),
    "no mark, but the group": (process(group=100), None, 0, [A, B], {}, "a"),
    "no number is no match for a run without one": (process(started_at=5), None, 0, [BARE], {}, NOBODY),
    "nothing to go by, one run": (process(), None, 0, [A], {}, "a"),
    "nothing to go by, one run that began after it": (process(started_at=5), None, 0, [A], {}, NOBODY),
    "nothing to go by, of two runs one began after it": (process(started_at=20), None, 0, [A, B], {}, "a"),
    "nothing to go by, two runs": (process(), None, 0, [A, B], {}, UNCLEAR),
    "nothing to go by, no run": (process(), None, 0, [], {}, NOBODY),
    "nothing to go by, a run that kept something": (process(), None, 0, [], Z, UNCLEAR),
    "nothing to go by, one run beside one that kept something": (process(), None, 0, [A], Z, UNCLEAR),
    "the mark of a run that is over": (process(), "y", 0, [A], Z, NOBODY),
    "the mark of a run that was to keep it": (process(), "z", 0, [A], Z, UNCLEAR),
    "the mark of a run that is over, in a group of another": (process(group=100), "y", 0, [A], Z, NOBODY),
    "the number of a run that is over": (process(), None, 8, [A], Z, NOBODY),
    "the number of a run that was to keep it": (process(), None, 9, [A], Z, UNCLEAR),
}


@pytest.mark.parametrize("case", TABLE)
def test_an_orphan_is_given_back_to_its_run(case: str) -> None:
    orphan, mark, number, runs, kept, expected = TABLE[case]
    assert run_of(orphan, mark, number, runs, kept) == expected
