"""The folder of a job: there before its process starts, removed later if the job has left nothing in it."""

import os
from pathlib import Path

import pytest

from semantica_daemon.supervisor.messages import SpawnRequest
from semantica_daemon.supervisor.spawn import SpawnError
from semantica_daemon.supervisor.workspace import make_workspace, remove_if_empty


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspaces"


def request(root: Path) -> SpawnRequest:
    workspace = f"{root}/a"
    flags = (False, False, False, None)
    return SpawnRequest("r", ["x"], "/", {}, 0, None, workspace, f"{workspace}/output", "", "", 0, *flags)


def remove(root: Path) -> None:
    remove_if_empty(f"{root}/a", f"{root}/a/output")


def test_it_is_made_with_a_folder_for_output_and_no_other_user_may_enter(root: Path) -> None:
    make_workspace(request(root))
    assert os.listdir(root / "a") == ["output"]
    assert [path.stat().st_mode & 0o777 for path in (root, root / "a", root / "a" / "output")] == [0o700] * 3


def test_an_empty_one_is_removed_and_made_anew_for_the_next_run(root: Path) -> None:
    make_workspace(request(root))
    remove(root)
    assert os.listdir(root) == []
    make_workspace(request(root))
    assert os.listdir(root / "a") == ["output"]


@pytest.mark.parametrize("name", ["job.log", "output/found", ".hidden"])
def test_what_a_run_has_left_stays_where_it_is(root: Path, name: str) -> None:
    make_workspace(request(root))
    (root / "a" / name).write_text("kept")
    remove(root)
    assert (root / "a" / name).read_text() == "kept"
    make_workspace(request(root))
    assert ((root / "a" / name).read_text(), (root / "a" / "output").is_dir()) == ("kept", True)


def test_a_folder_that_is_gone_already_is_no_error(root: Path) -> None:
    remove(root)
    assert not root.exists()


def test_a_folder_that_cannot_be_made_is_no_fault_of_the_command(root: Path) -> None:
    root.write_text("in the way")
    with pytest.raises(SpawnError) as error:
        make_workspace(request(root))
    assert (error.value.report.part, error.value.report.retryable) == ("workspace", True)
    assert f"{root}/a" in error.value.report.message
