"""The number that all processes of a run bear, whatever they do to their environment, session and parents."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from semantica_daemon.supervisor.numbers import MOST, Numbers
from tests.supervisor.families import end, parent, start

WAIT = "sys.stdout.flush(); time.sleep(600)"


@pytest.fixture
def numbers() -> Iterator[Numbers]:
    made = Numbers()
    if made.next(()) == 0:
        pytest.skip("NOT TESTED: this system has no limit to number by")
    yield Numbers()
    made.bear(0)


def test_they_are_given_in_turn_and_never_one_that_is_taken(numbers: Numbers) -> None:
    assert [numbers.next(()) for _ in range(3)] == [1, 2, 3]
    assert numbers.next({4, 5, 7}) == 6
    assert numbers.next({7}) == 8


def test_after_the_last_comes_the_first_that_is_free(numbers: Numbers) -> None:
    for _ in range(MOST - 1):
        numbers.next(())
    assert [numbers.next({1}) for _ in range(2)] == [MOST, 2]


def test_when_all_but_one_are_taken_that_one_is_found_and_then_there_is_none(numbers: Numbers) -> None:
    everything = set(range(1, MOST + 1))
    assert numbers.next(everything - {MOST - 1}) == MOST - 1
    assert numbers.next(everything) == 0


@pytest.mark.parametrize("number", [1, 77, MOST])
def test_who_is_started_bears_it_and_so_do_all_that_come_from_it(numbers: Numbers, number: int) -> None:
    assert numbers.of(os.getpid()) == 0
    numbers.bear(number)
    process, pids = start(parent(f"print([os.getpid(), child(os.setsid, twice), hidden()]); {WAIT}"))
    numbers.bear(0)
    later = subprocess.Popen(["sleep", "600"])
    assert [numbers.of(pid) for pid in pids] == [number] * 3
    assert (numbers.of(later.pid), numbers.of(os.getpid())) == (0, 0)
    end(process.pid, later.pid, *pids)
    later.wait()


def test_who_is_gone_or_has_a_limit_of_its_own_bears_none(numbers: Numbers) -> None:
    assert numbers.of(2**22 + 1) == 0
    process, _ = start(parent(f"import resource; resource.setrlimit(12, (5, 5)); print([]); {WAIT}"))
    assert numbers.of(process.pid) == 0
    end(process.pid)
