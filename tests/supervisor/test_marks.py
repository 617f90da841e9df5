"""The tag that all processes of a run carry, whatever they do to their environment, session and parents."""

import os
import subprocess
from collections.abc import Iterator
from uuid import uuid4

import pytest

from semantica_daemon.processes.marks import LARGEST_TAG, Tags, run_id_of, tag_for
from tests.supervisor.families import end, parent, start

WAIT = "sys.stdout.flush(); time.sleep(600)"


@pytest.fixture
def tags() -> Iterator[Tags]:
    made = Tags()
    if not made.supported:
        pytest.skip("NOT TESTED: this system has no limit to put a tag in")
    yield made
    made.tag_next_spawn(0)


def test_every_run_id_has_a_tag_and_always_the_same() -> None:
    ids = [str(uuid4()) for _ in range(2000)]
    found = [tag_for(run_id) for run_id in ids]
    assert all(1 <= tag <= LARGEST_TAG for tag in found)
    assert found == [tag_for(run_id) for run_id in ids]
    assert len(set(found)) > 1900, "of 65,535 tags few are shared"


@pytest.mark.parametrize("tag", [1, 77, LARGEST_TAG])
def test_a_spawned_process_carries_it_and_so_do_all_its_descendants(tags: Tags, tag: int) -> None:
    assert tags.tag_of(os.getpid()) == 0
    tags.tag_next_spawn(tag)
    process, pids = start(parent(f"print([os.getpid(), child(os.setsid, twice), hidden()]); {WAIT}"))
    tags.tag_next_spawn(0)
    later = subprocess.Popen(["sleep", "600"])
    assert [tags.tag_of(pid) for pid in pids] == [tag] * 3
    assert (tags.tag_of(later.pid), tags.tag_of(os.getpid())) == (0, 0)
    end(process.pid, later.pid, *pids)
    later.wait()


def test_a_process_that_is_gone_or_has_a_limit_of_its_own_has_no_tag(tags: Tags) -> None:
    assert tags.tag_of(2**22 + 1) == 0
    process, _ = start(parent(f"import resource; resource.setrlimit(12, (5, 5)); print([]); {WAIT}"))
    assert tags.tag_of(process.pid) == 0
    end(process.pid)


def test_the_run_id_is_read_from_the_environment_a_process_started_with() -> None:
    for env, expected in (({"SEMANTICA_RUN_ID": "r 1"}, "r 1"), ({"NOT_SEMANTICA_RUN_ID": "x"}, None)):
        process, _ = start(parent(f"print([]); {WAIT}"), env)
        assert run_id_of(process.pid) == expected
        end(process.pid)
    assert run_id_of(2**22 + 1) is None
