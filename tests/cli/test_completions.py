"""Completion in real shells: each gets its script from `semantica completions`, and the TAB key."""

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from semantica_daemon.cli.commands import COMMANDS
from tests.cases import each_case
from tests.cli.command_line import COMMAND, Line
from tests.harness import PATIENCE_S, Process

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(semantica completions bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(semantica completions zsh)"'),
}


@pytest.fixture
def words(line: Line, daemon: Process, tmp_path: Path) -> dict[str, str]:
    """A job, a queue, a tag and a schedule; and the environment of a user of that daemon."""
    job_id = line("add", "-q", "--queue", "builds", "--tag", "nightly", "--after", "1h", "--", "true").out.strip()
    line("add", "-q", "--every", "0 3 * * *", "--name", "reports", "--", "true")
    line("add", "-q", "--every", "10m", "--name", "poll", "--", "true")
    (tmp_path / "semantica").write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    (tmp_path / "semantica").chmod(0o755)
    line.env["PATH"] = f"{tmp_path}:{line.env['PATH']}"
    return {"job": job_id[:8], "queue": "builds", "tag": "nightly", "schedule": "reports"}


def test_candidates_are_the_names_that_exist_now(line: Line, words: dict[str, str]) -> None:
    def first_column(*unfinished: str) -> list[str]:
        return [row.partition("\t")[0] for row in line("completions", "--", *unfinished).out.splitlines()]

    assert words["job"] in first_column("cancel", "")
    assert first_column("logs", "-f", words["job"][:5]) == [words["job"]]
    assert "nightly" in first_column("cancel", "--tag", "")
    assert first_column("list", "--json", "--tag=ni") == ["--tag=nightly"]
    assert first_column("queue", "pause", "bui") == ["builds"]
    assert first_column("schedule", "trigger", "rep") == ["reports"]
    assert first_column("schedule", "trigger", "po") == ["poll"], "it has no cron expression"
    assert "schedule.list" in first_column("rpc", "schedule.")
    assert first_column("--quiet", "schedule", "tr") == ["trigger"]
    assert first_column("list", "--state", "runn") == ["running"]
    assert first_column("run", "--on-running", "") == ["finish", "cancel"]
    assert first_column("run", "--ta") == ["--tag"]
    assert first_column("run", "--ev") == [], "hidden: it exists only to name another command"
    assert first_column("run", "--cwd", "") == [":files"]
    assert first_column("run", "--tag", "x", "make", "te") == [":command 1"]
    assert first_column("add", "--", "") == [":command 0"]
    assert first_column("") == list(COMMANDS)


@each_case("words", [("nonsense", ""), ("cancel", "--tag", ""), ("show", ""), ("schedule", "nonsense", "")])
def test_without_a_daemon_nothing_is_started_and_nothing_fails(
    home: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    result = Line(home, tmp_path)("completions", "--", *words)
    assert (result.code, result.out, result.err) == (0, "", "")
    assert not (home / "daemon.sock").exists()


class TypedInto:
    """A shell on a terminal, with the script loaded."""

    def __init__(self, name: str, line: Line) -> None:
        if shutil.which(name) is None:
            pytest.skip(f"NOT TESTED: {name} is not installed")
        command, load = SHELLS[name]
        self._terminal, other = pty.openpty()
        env = {**line.env, "PS1": "> ", "TERM": "dumb", "HOME": str(line.cwd)}
        self._process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, env=env, cwd=line.cwd, start_new_session=True
        )
        os.close(other)
        self._seen = ""
        self.type(f"{load}; echo loaded $((40 + 2))\n", "loaded 42")

    def type(self, text: str, wanted: str) -> None:
        """Types it, and waits for what the shell shows then."""
        os.write(self._terminal, text.encode())
        until = time.monotonic() + PATIENCE_S
        while wanted not in self._seen:
            ready, _, _ = select.select([self._terminal], [], [], max(0, until - time.monotonic()))
            assert ready, f"{wanted!r} is not in {self._seen!r}"
            self._seen += os.read(self._terminal, 65_536).decode(errors="replace")
        self._seen = ""

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest, line: Line, words: dict[str, str]) -> Iterator[TypedInto]:
    typed = TypedInto(request.param, line)
    yield typed
    typed.end()


def test_the_tab_key_completes_in_a_shell(shell: TypedInto, words: dict[str, str], tmp_path: Path) -> None:
    """Control-U clears the line for the next one."""
    shell.type("semantica compl\t", "completions ")
    shell.type("\x15semantica cancel --tag nig\t", "nightly ")
    shell.type(f"\x15semantica logs -f {words['job'][:5]}\t", f"{words['job']} ")
    shell.type("\x15semantica schedule trigger rep\t", "reports ")
    (tmp_path / "folder-of-mine").mkdir()
    shell.type("\x15semantica run --cwd folder-o\t", "folder-of-mine/")
    shell.type("\x15semantica run -- ls folder-o\t", "folder-of-mine/")


def test_no_text_of_a_tag_is_run_by_the_shell(shell: TypedInto, line: Line, tmp_path: Path) -> None:
    """The completed tag arrives as it was given: the job is found by it, and its id is shown."""
    words = ("add", "-q", "--after", "1h", "--tag")
    job_id = line(*words, "evil of $(touch ran)", "--", "true").out.strip()
    shell.type("semantica list --json --tag ev\t", "ran")
    shell.type("\n", job_id)
    shell.type("semantica list --json --tag evil\\ of\\ \t", "ran")
    shell.type("\n", job_id)
    plain = line(*words, "two words", "--", "true").out.strip()
    shell.type("semantica list --json --tag 'two w\t", "ords")
    shell.type("\n", plain)
    assert not (tmp_path / "ran").exists()


def test_a_tag_cannot_be_taken_for_an_instruction_to_the_script(line: Line, words: dict[str, str]) -> None:
    """bash and zsh calculate with the number that follows `:command`, and a calculation can run commands."""
    for tag in (":command x[$(touch ran)]", "a\n:files"):
        assert line("add", "-q", "--after", "1h", "--tag", tag, "--", "true").code == 0
    found = line("completions", "--", "list", "--tag", "").out.splitlines()
    assert "nightly" in found
    assert not [one for one in found if one.startswith((":", "a"))]


def test_fish_completes(line: Line, words: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("NOT TESTED: fish is not installed")
    (tmp_path / "folder-of-mine").mkdir()

    def complete(unfinished: str) -> list[str]:
        script = f"semantica completions fish | source; complete -C '{unfinished}'"
        env = {**line.env, "HOME": str(tmp_path)}
        done = subprocess.run(["fish", "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
        return [row.partition("\t")[0] for row in done.stdout.splitlines()]

    assert complete("semantica compl") == ["completions"]
    assert complete("semantica cancel --tag nig") == ["nightly"]
    assert complete(f"semantica logs -f {words['job'][:5]}") == [words["job"]]
    line("add", "-q", "--after", "1h", "--tag", "two words", "--", "true")
    assert complete("semantica cancel --tag two\\\\ w") == ["two words"]
    assert complete("semantica run --cwd folder-o") == ["folder-of-mine/"]
    assert complete("semantica run -- ls folder-o") == ["folder-of-mine/"]
