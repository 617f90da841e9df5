"""Which run an orphan belongs to, as a table: by run id, tag, session or group, else by the runs started before."""

from semantica_daemon.processes.table import Process
from semantica_daemon.supervisor.owner import NO_RUN, UNKNOWN, owner_of
from semantica_daemon.supervisor.run import Run
from tests.cases import each_case


def run(run_id: str, tag: int, pid: int, started_at: int) -> Run:
    """A run as the supervisor holds it, without a process of its own."""
    made = object.__new__(Run)
    made.run_id, made.tag, made.pid, made.started_at = run_id, tag, pid, started_at
    return made


def process(group: int = 900, session: int = 900, started_at: int = 50) -> Process:
    return Process(900, 1, group, session, started_at, "orphan")


A, B = run("a", 1, 100, 10), run("b", 2, 200, 40)
UNTAGGED = run("untagged", 0, 300, 10)
Z = {"z": 9}
TABLE: dict[str, tuple[Process, str | None, int, list[Run], dict[str, int], str | None]] = {
    "its run id decides": (process(), "a", 0, [A, B], {}, "a"),
    "its run id decides, whatever its group": (process(group=200, session=200), "a", 0, [A, B], {}, "a"),
    "its run id decides, whatever its tag": (process(), "a", 2, [A, B], {}, "a"),
    "no run id, but the tag": (process(), None, 2, [A, B], Z, "b"),
    "no run id, but the session": (process(session=200), None, 0, [A, B], {}, "b"),
    "no run id, but the group": (process(group=100), None, 0, [A, B], {}, "a"),
    "no tag does not match a run without one": (process(started_at=5), None, 0, [UNTAGGED], {}, NO_RUN),
    "no mark, one run": (process(), None, 0, [A], {}, "a"),
    "no mark, one run that began after it": (process(started_at=5), None, 0, [A], {}, NO_RUN),
    "no mark, of two runs one began after it": (process(started_at=20), None, 0, [A, B], {}, "a"),
    "no mark, two runs": (process(), None, 0, [A, B], {}, UNKNOWN),
    "no mark, no run": (process(), None, 0, [], {}, NO_RUN),
    "no mark, a run that kept something": (process(), None, 0, [], Z, UNKNOWN),
    "no mark, one run beside one that kept something": (process(), None, 0, [A], Z, UNKNOWN),
    "the run id of a run that is over": (process(), "y", 0, [A], Z, NO_RUN),
    "the run id of a run that kept it": (process(), "z", 0, [A], Z, UNKNOWN),
    "the run id of a run that is over, in a group of another": (process(group=100), "y", 0, [A], Z, NO_RUN),
    "the tag of a run that is over": (process(), None, 8, [A], Z, NO_RUN),
    "the tag of a run that kept it": (process(), None, 9, [A], Z, UNKNOWN),
}


@each_case("case", TABLE)
def test_an_orphan_belongs_to(case: str) -> None:
    orphan, run_id, tag, runs, kept, expected = TABLE[case]
    assert owner_of(orphan, run_id, tag, runs, kept) == expected
