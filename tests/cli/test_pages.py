"""The snippets of docs/scheduling.md for shells and editors. `tests/test_docs.py` runs its commands."""

import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.command_line import Line
from tests.cli.pages import Shell, blocks
from tests.harness import Process

[SNIPPET] = blocks("sh", "_semantica_prompt")
SHELLS = {"bash": ("bash", "--norc", "--noprofile", "-i"), "zsh": ("zsh", "-f", "-i")}


@pytest.fixture
def shell(line: Line, home: Path) -> Shell:
    return Shell(line, home)


@pytest.mark.parametrize("name", sorted(SHELLS))
def test_the_prompt_emits_repositories_checkouts_and_commits(
    line: Line, daemon: Process, shell: Shell, name: str
) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"NOT TESTED: {name} is not installed")
    here = shell.repository.resolve()
    jobs = [line("add", "-q", "--on-event", event, "--", "true").out.strip() for event in (
        f"shell:repo={here}", "git:commit=main", "git:checkout=topic")]  # fmt: skip
    wait = f"semantica wait {' '.join(jobs)} --timeout 20s && echo all are $((40 + 2))"
    steps = ["cd /", f"cd {here}", "git init -q", "true", "git commit -q --allow-empty -m one", "true",
             "git switch -q -c topic", "cd /", wait, "exit 0"]  # fmt: skip
    (shell.home / "snippet").write_text(SNIPPET)
    output = shell("", SHELLS[name], stdin="\n".join([f". {shell.home}/snippet", *steps, ""]))
    assert "all are 42" in output
    assert [daemon.call("job.get", job_id=job)["state"] for job in jobs] == ["DONE"] * 3


def test_the_prompt_keeps_the_exit_code_and_what_was_there_before(shell: Shell) -> None:
    (shell.home / "snippet").write_text(SNIPPET)
    steps = ["PROMPT_COMMAND='echo before $?'", f". {shell.home}/snippet", "(exit 3)", "echo it was $?", "exit 0"]
    output = shell("", SHELLS["bash"], stdin="\n".join([*steps, ""]))
    assert "before 3" in output
    assert "it was 3" in output


EDITORS = {
    "nvim": ("lua", "nvim --headless -u {} -c 'doautocmd CursorMoved'"),
    "vim": ("vim", "vim -es -N -u {} -c 'doautocmd CursorMoved'"),
    "emacs": ("elisp", "emacs --batch -l {} --eval '(run-hooks (quote post-command-hook))'"),
}


@pytest.mark.parametrize("name", sorted(EDITORS))
def test_an_editor_reports_that_its_user_is_typing(daemon: Process, shell: Shell, name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"NOT TESTED: {name} is not installed")
    language, command = EDITORS[name]
    [snippet] = blocks(language)
    file = shell.home / f"snippet.{language}"
    file.write_text(snippet)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        shlex.split(command.format(file)), env=shell.env, cwd=shell.home, stdin=pipe, stdout=pipe, stderr=pipe
    ) as editor:
        until = time.monotonic() + 20
        while not (result := is_told(daemon, name)) and time.monotonic() < until:
            time.sleep(0.02)
        editor.kill()
    assert result


def is_told(daemon: Process, name: str) -> bool:
    sources = daemon.call("machine.get")["sources"]
    return any(source["source"] == "editors" and source["detail"].startswith(f"{name} ") for source in sources)
