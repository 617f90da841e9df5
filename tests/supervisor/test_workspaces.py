"""The folders of jobs: a run that has left nothing gives its folder back, what it has left is never touched."""

import os
import shutil
from pathlib import Path

import pytest

from semantica_daemon.supervisor.order import NotStarted
from semantica_daemon.supervisor.workspaces import SPARE, Workspaces


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspaces"


def names(root: Path) -> list[str]:
    """What anybody but the supervisor would see."""
    return sorted(name for name in os.listdir(root) if name != SPARE)


def test_a_folder_is_made_with_room_for_output_and_is_ours_alone(root: Path) -> None:
    Workspaces(str(root)).take(f"{root}/a")
    assert names(root / "a") == ["output"]
    assert [path.stat().st_mode & 0o777 for path in (root, root / "a", root / "a" / "output")] == [0o700] * 3


def test_an_empty_one_is_gone_under_its_name_and_used_again(root: Path) -> None:
    workspaces = Workspaces(str(root))
    workspaces.take(f"{root}/a")
    before = (root / "a").stat().st_ino
    workspaces.give_back(f"{root}/a")
    assert not (root / "a").exists()
    workspaces.take(f"{root}/b")
    assert ((root / "b").stat().st_ino, names(root), names(root / "b")) == (before, ["b"], ["output"])


@pytest.mark.parametrize("name", ["job.log", "output/found", ".hidden"])
def test_what_a_run_has_left_stays_where_it_is(root: Path, name: str) -> None:
    workspaces = Workspaces(str(root))
    workspaces.take(f"{root}/a")
    (root / "a" / name).write_text("kept")
    workspaces.give_back(f"{root}/a")
    workspaces.close()
    assert (root / "a" / name).read_text() == "kept"


def test_the_next_run_of_a_job_finds_what_the_last_one_left(root: Path) -> None:
    workspaces = Workspaces(str(root))
    for job in ("a", "spare"):
        workspaces.take(f"{root}/{job}")
    (root / "a" / "output" / "found").write_text("kept")
    workspaces.give_back(f"{root}/a")
    workspaces.give_back(f"{root}/spare")
    workspaces.take(f"{root}/a")
    assert (root / "a" / "output" / "found").read_text() == "kept"


def test_spare_ones_are_removed_at_the_end_and_those_of_a_killed_supervisor_are_used(root: Path) -> None:
    killed = Workspaces(str(root))
    killed.take(f"{root}/a")
    killed.give_back(f"{root}/a")
    assert (names(root), len(os.listdir(root / SPARE))) == ([], 1)
    after = Workspaces(str(root))
    after.take(f"{root}/b")
    assert names(root) == ["b"]
    after.give_back(f"{root}/b")
    after.close()
    assert (names(root), os.listdir(root / SPARE)) == ([], [])


def test_a_folder_that_was_removed_is_no_trouble(root: Path) -> None:
    workspaces = Workspaces(str(root))
    workspaces.give_back(f"{root}/never")
    workspaces.take(f"{root}/a")
    workspaces.give_back(f"{root}/a")
    shutil.rmtree(root)
    workspaces.take(f"{root}/b")
    assert names(root / "b") == ["output"]


def test_a_folder_that_others_may_look_into_is_not_used_again(root: Path) -> None:
    workspaces = Workspaces(str(root))
    workspaces.take(f"{root}/a")
    (root / "a" / "output").chmod(0o777)
    workspaces.give_back(f"{root}/a")
    assert names(root) == ["a"]


def test_where_no_folder_can_be_made_is_no_fault_of_the_command(root: Path) -> None:
    workspaces = Workspaces(str(root))
    root.write_text("in the way")
    with pytest.raises(NotStarted) as refused:
        workspaces.take(f"{root}/a")
    assert (refused.value.of, refused.value.again) == ("workspace", True)
    assert f"{root}/a" in refused.value.message
