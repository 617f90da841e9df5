"""The git hook of docs/scheduling.md, taken from there and run by a real git: it emits, takes no time, never fails."""

import os
from pathlib import Path

import pytest

from tests.cli.command_line import Line
from tests.cli.pages import Shell, blocks
from tests.harness import Process

[HOOK] = blocks("sh", "#!/bin/sh")
[IN_ONE] = blocks("sh", "--git-path hooks")
[IN_NEW_ONES] = blocks("sh", "init.templateDir")
[IN_ALL] = blocks("sh", "core.hooksPath ~")


@pytest.fixture
def shell(line: Line, home: Path) -> Shell:
    """With a repository that has one commit, and the script where the page puts it."""
    shell = Shell(line, home)
    shell("git init -q; git commit -q --allow-empty -m first")
    (home / ".config" / "semantica").mkdir(parents=True)
    (home / ".config" / "semantica" / "git-hook").write_text(HOOK)
    shell("chmod +x ~/.config/semantica/git-hook")
    return shell


def waiting(line: Line, *events: str) -> list[str]:
    """A job for each."""
    return [line("add", "-q", "--on-event", event, "--", "true").out.strip() for event in events]


def emitted(daemon: Process, since: int) -> list[tuple[str, str]]:
    events = daemon.call("event.list", since=since, event_types=["event.emitted"])["events"]
    return [(event["payload"]["key"], event["payload"]["value"]) for event in events]


def newest(daemon: Process) -> int:
    return int(daemon.call("admin.health")["parts"]["feed"]["sequence"])


def test_a_commit_and_a_checkout_open_the_jobs_that_wait_for_them(line: Line, daemon: Process, shell: Shell) -> None:
    since = newest(daemon)
    here = str(shell.repository.resolve())
    shell(IN_ONE)
    jobs = waiting(line, "git:commit", "git:commit=main", f"git:commit:{here}=main")
    assert shell("git commit -q --allow-empty -m second") == ""
    assert line("wait", *jobs, "--timeout", "20s").code == 0
    jobs = waiting(line, "git:checkout=topic", f"git:checkout:{here}")
    shell("git switch -q -c topic")
    assert line("wait", *jobs, "--timeout", "20s").code == 0
    jobs = waiting(line, f"git:checkout:{here}=HEAD")
    shell("git checkout -q --detach")
    assert line("wait", *jobs, "--timeout", "20s").code == 0
    result = [("git:commit", "main"), ("git:checkout", "topic"), ("git:checkout", "HEAD")]
    assert emitted(daemon, since) == [
        event for key, branch in result for event in ((key, branch), (f"{key}:{here}", branch))
    ]


def test_a_checkout_of_files_is_none_of_a_branch(line: Line, daemon: Process, shell: Shell) -> None:
    shell("echo a > a; git add a; git commit -q -m a")
    shell(IN_ONE)
    since = newest(daemon)
    shell("echo b > a; git checkout -q -- a")
    jobs = waiting(line, f"git:commit:{shell.repository.resolve()}")
    shell("git commit -q --allow-empty -m next")
    assert line("wait", *jobs, "--timeout", "20s").code == 0
    assert {key for key, _ in emitted(daemon, since)} == {"git:commit", f"git:commit:{shell.repository.resolve()}"}


def test_git_does_not_wait_for_it(shell: Shell) -> None:
    os.mkfifo(shell.home / "held")
    shell.provide(f"exec cat {shell.home}/held")
    shell(IN_ONE)
    shell("git commit -q --allow-empty -m held; git switch -q -c held")  # would hang, or be held open by its streams
    handle = os.open(shell.home / "held", os.O_RDWR | os.O_NONBLOCK)  # lets the two go, and whoever follows them
    (shell.commands / "semantica").unlink()
    os.close(handle)


@pytest.mark.parametrize("script", ["exit 3", "echo noise; echo noise >&2; exit 70", None])
def test_it_neither_fails_nor_prints_whatever_semantica_does(shell: Shell, script: str | None) -> None:
    shell(IN_ONE)
    if script is None:
        (shell.commands / "semantica").unlink()
    else:
        shell.provide(script)
    assert shell("git commit -q --allow-empty -m alone && git switch -q -c alone") == ""


def test_a_repository_that_is_cloned_has_it_too(line: Line, shell: Shell) -> None:
    shell(IN_NEW_ONES)
    jobs = waiting(line, "git:checkout=main", f"git:commit:{shell.home.resolve()}/clone")
    shell("git clone -q . ../clone && cd ../clone && git commit -q --allow-empty -m cloned")
    assert line("wait", *jobs, "--timeout", "20s").code == 0


def test_in_all_repositories_their_own_hooks_are_still_run(line: Line, shell: Shell) -> None:
    own = shell.repository / ".git" / "hooks"
    own.mkdir(exist_ok=True)
    for name in ("post-commit", "pre-commit", "commit-msg"):
        (own / name).write_text(f"#!/bin/sh\necho own {name} $#\ntest {name} != pre-commit || test ! -e refuse\n")
        (own / name).chmod(0o755)
    shell(IN_ALL)
    jobs = waiting(line, "git:commit=main")
    output = shell("git commit -q --allow-empty -m all")
    assert [row for row in output.splitlines() if row] == ["own pre-commit 0", "own commit-msg 1", "own post-commit 0"]
    assert line("wait", *jobs, "--timeout", "20s").code == 0
    assert "refused\n" in shell("touch refuse; git commit -q --allow-empty -m refused || echo refused")


def test_a_folder_below_another_working_tree_is_named_by_its_own(line: Line, daemon: Process, shell: Shell) -> None:
    shell(IN_ONE)
    since = newest(daemon)
    jobs = waiting(line, f"git:commit:{shell.home.resolve()}/tree=side")
    shell("git worktree add -q -b side ../tree && cd ../tree && git commit -q --allow-empty -m side")
    assert line("wait", *jobs, "--timeout", "20s").code == 0
    assert ("git:commit", "side") in emitted(daemon, since)
