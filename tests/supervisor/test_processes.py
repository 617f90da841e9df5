"""Processes as /proc tells of them, and the one promise that counts: who is not meant is never signalled."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from semantica_daemon.processes import marks, table
from semantica_daemon.processes.orphans import Identity, end_orphans
from semantica_daemon.processes.table import Process
from tests.harness import PATIENCE_S
from tests.stopwatch import Stopwatch
from tests.supervisor.families import end, is_there, parent, python, start, until

WAIT = "sys.stdout.flush(); time.sleep(600)"
ALONE = parent(f"print([]); {WAIT}")


@pytest.fixture
def made() -> Iterator[list[int]]:
    """Pids that are ended with the test."""
    pids: list[int] = []
    yield pids
    end(*pids)


@pytest.fixture
def mine() -> str:
    """A run id of this test alone: a test in a process beside this one would end what has the same."""
    return f"run of {uuid4()}"


def looked_at(pid: int) -> Process:
    found = table.find_process(pid)
    assert found is not None
    return found


def identity(pid: int) -> Identity:
    return Identity("a run that left no mark", pid, looked_at(pid).started_at, table.boot_id())


def test_oneself_is_seen_as_one_is() -> None:
    me = looked_at(os.getpid())
    assert (me.pid, me.parent, me.group, me.session) == (os.getpid(), os.getppid(), os.getpgid(0), os.getsid(0))
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME) * 1000
    assert 0 < me.started_at <= since_boot


def test_a_name_with_brackets_and_blanks_is_taken_apart_rightly(tmp_path: Path, made: list[int]) -> None:
    program = tmp_path / "a) R (b c"
    shutil.copy(shutil.which("sleep") or "", program)
    process = subprocess.Popen([str(program), "600"])
    made.append(process.pid)
    found = looked_at(process.pid)
    assert (found.name, found.parent) == ("a) R (b c", os.getpid())


def test_a_zombie_is_gone_and_so_is_who_never_was() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert table.find_process(process.pid) is None
    assert process.wait() == 0
    assert table.find_process(process.pid) is None
    assert table.find_process(2**22 + 1) is None


def test_who_has_lost_only_its_first_thread_is_there_and_can_be_ended(made: list[int]) -> None:
    process, (pid,) = start(parent(f"print([headless()]); {WAIT}"), {"SEMANTICA_RUN_ID": "headless"})
    made += [process.pid, pid]
    assert looked_at(pid).session != os.getsid(0)
    assert end_orphans([Identity("headless", None, None, None)]) == set()
    assert table.find_process(pid) is None


def test_children_and_all_that_came_from_them(made: list[int]) -> None:
    process, (first, second) = start(parent(f"print([child(), child(lambda: child())]); {WAIT}"))
    made += [process.pid, first, second]
    assert process.pid in table.children_of(os.getpid())
    assert sorted(table.children_of(process.pid)) == sorted([first, second])
    (third,) = table.children_of(second)
    made.append(third)
    assert sorted(table.descendants_of([process.pid])) == sorted([first, second, third])
    assert table.descendants_of([third]) == []
    assert table.children_of(2**22 + 1) == []


def test_the_mark_is_read_from_the_environment_it_began_with(made: list[int]) -> None:
    for env, expected in (({"SEMANTICA_RUN_ID": "r 1"}, "r 1"), ({"NOT_SEMANTICA_RUN_ID": "x"}, None)):
        process, _ = start(ALONE, env)
        made.append(process.pid)
        assert marks.run_id_of(process.pid) == expected
    assert marks.run_id_of(2**22 + 1) is None


def test_a_signal_reaches_that_very_process_and_no_later_one_of_its_pid(made: list[int]) -> None:
    process, _ = start(ALONE)
    made.append(process.pid)
    right = looked_at(process.pid)
    for wrong in (right._replace(started_at=right.started_at + 10), right._replace(started_at=0)):
        table.send_signal(wrong, signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    table.send_signal(right, signal.SIGTERM)
    assert process.wait(40) == -signal.SIGTERM
    table.send_signal(right, signal.SIGTERM)


def test_all_that_carries_the_mark_of_an_orphaned_run_is_ended(made: list[int], mine: str) -> None:
    """Also who has a session of its own, has forked twice or turns a deaf ear."""
    family = f"print([child(), child(os.setsid, deaf), child(os.setsid, twice)]); {WAIT}"
    process, pids = start(parent(family), {"SEMANTICA_RUN_ID": mine})
    other, _ = start(ALONE, {"SEMANTICA_RUN_ID": "another's"})
    made += [process.pid, *pids, other.pid]
    assert end_orphans([Identity(mine, None, None, None)]) == set()
    process.wait(1)
    assert not any(is_there(pid) for pid in pids)
    assert is_there(other.pid)


def test_a_child_that_has_cleared_its_environment_goes_with_its_parent(made: list[int], mine: str) -> None:
    program = parent(
        "pid = os.fork() or bare()\n"
        "while b'-I' not in open(f'/proc/{pid}/cmdline', 'rb').read() or open(f'/proc/{pid}/environ').read(): pass\n"
        f"print([pid]); {WAIT}"
    )
    process, (hidden,) = start(program, {"SEMANTICA_RUN_ID": mine})
    made += [process.pid, hidden]
    assert marks.run_id_of(hidden) is None
    assert end_orphans([Identity(mine, None, None, None)]) == set()
    process.wait(1)
    until(lambda: not is_there(hidden))


def test_a_main_process_is_known_by_pid_start_and_boot_alone(made: list[int]) -> None:
    process, pids = start(parent(f"print([child()]); {WAIT}"), {})
    made += [process.pid, *pids]
    assert end_orphans([identity(process.pid)]) == set()
    assert process.wait(1) == -signal.SIGKILL
    assert not any(is_there(pid) for pid in pids)


@pytest.mark.parametrize(
    "other", [{"started_at": 12_340}, {"started_at": None}, {"boot_id": "another"}, {"boot_id": None}]
)
def test_a_pid_that_was_given_again_is_never_signalled(made: list[int], other: dict[str, Any]) -> None:
    process, _ = start(ALONE, {})
    made.append(process.pid)
    assert end_orphans([identity(process.pid)._replace(**other)]) == set()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)


def test_a_pid_of_another_boot_is_never_signalled_though_it_began_at_the_same_time(made: list[int]) -> None:
    process, _ = start(ALONE, {})
    made.append(process.pid)
    known = identity(process.pid)
    assert end_orphans([known._replace(boot_id="0" * 36), known._replace(pid=2**22 + 1)]) == set()
    assert is_there(process.pid)


def test_nothing_to_end_takes_no_time() -> None:
    watch = Stopwatch()
    assert end_orphans([]) == set()
    assert end_orphans([Identity("nobody's", None, None, None)]) == set()
    assert watch.seconds() < 1


def test_who_looks_for_orphans_is_none_itself(mine: str) -> None:
    """A daemon that was started from inside a job carries that run's mark."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(table.__file__).parents[2])!r})\n"
        "from semantica_daemon.processes.orphans import Identity, end_orphans\n"
        f"print(end_orphans([Identity({mine!r}, None, None, None)], within_s=2))"
    )
    ended = subprocess.run(
        python(program), env={"SEMANTICA_RUN_ID": mine}, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, b"set()\n"), ended


def test_everybody_is_all_others_of_our_uid() -> None:
    found = table.own_processes()
    assert os.getppid() in found
    assert os.getpid() not in found
    assert all(os.stat(f"/proc/{pid}").st_uid == os.getuid() for pid in found if is_there(pid))


@pytest.fixture
def tags() -> Iterator[marks.Tags]:
    made = marks.Tags()
    if not made.supported:
        pytest.skip("NOT TESTED: this system has no limit to put a tag in")
    yield made
    made.tag_next_spawn(0)


@pytest.mark.parametrize("started_at", [None, 0])
def test_an_orphan_without_environment_and_parents_is_ended_by_its_tag(
    tags: marks.Tags, made: list[int], started_at: int | None
) -> None:
    run_id = str(uuid4())  # no other test, in a process beside this one, may mean this one by its tag
    tags.tag_next_spawn(marks.tag_for(run_id))
    process, (hidden,) = start(parent(f"print([hidden()]); {WAIT}"), {})
    made += [process.pid, hidden]
    end(process.pid)
    process.wait()
    tags.tag_next_spawn(0)
    assert end_orphans([Identity(run_id, None, started_at, None)]) == set()
    until(lambda: not is_there(hidden))


def test_a_tagged_process_of_another_run_or_of_a_living_supervisor_is_left_alone(
    tags: marks.Tags, made: list[int]
) -> None:
    tags.tag_next_spawn(marks.tag_for(run_id := str(uuid4())))
    supervisor, (child,) = start(
        parent(f"pid = os.fork() or bare()\nprint([pid]); {WAIT}"), {"SEMANTICA_SUPERVISOR": "/its.lock"}
    )
    marked, _ = start(ALONE, {"SEMANTICA_RUN_ID": "another's"})
    earlier, _ = start(ALONE, {})
    made += [supervisor.pid, child, marked.pid, earlier.pid]
    tags.tag_next_spawn(0)
    until(lambda: not any(marks.environment_of(child)))
    later = looked_at(earlier.pid).started_at + 10
    assert end_orphans([Identity(run_id, None, later, None)]) == set()
    assert all(is_there(pid) for pid in (supervisor.pid, child, marked.pid, earlier.pid))
