"""What `run` and `add` hand over of the caller's environment, what templates store of it, and what `show` has."""

import os
from pathlib import Path

import pytest

from tests.cli.command_line import Line
from tests.cli.pages import Shell
from tests.harness import Process

ODD = bytes(range(128, 256))
SHOW = ("--", "sh", "-c", "echo ${MINE-unset} ${OTHER-unset} ${LC_TIME-unset} ${SEMANTICA_SOMETHING-unset}")
MINE = {"MINE": "1", "OTHER": "2", "LC_TIME": "C", "SEMANTICA_SOMETHING": "3"}


def test_a_linter_in_a_pre_commit_hook_checks_the_files_of_that_commit(line: Line, home: Path) -> None:
    """git names the index of a partial commit by a variable; without it the hook sees both files, or none."""
    shell = Shell(line, home)
    shell("git init -q; touch a b; git add a b; git commit -q -m first")
    hook = shell.repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexec semantica run -- git diff --cached --name-only\n")
    hook.chmod(0o755)
    assert shell("echo 1 > a; echo 1 > b; git add b; git commit -q -m second a").split() == ["a"]


def test_the_whole_environment_goes_along_or_the_short_list_or_what_is_named(line: Line) -> None:
    assert line("run", *SHOW, **MINE).out == "1 2 C unset\n"
    assert line("run", "-e", "OTHER=9=9", *SHOW, **MINE).out == "1 9=9 C unset\n"
    assert line("run", "--clean-env", *SHOW, **MINE).out == "unset unset C unset\n"
    assert line("run", "--clean-env", "--env", "MINE", "-e", "OTHER=9=9", *SHOW, **MINE).out == "1 9=9 C unset\n"
    assert "both given" in line("run", "--clean-env", "--env-all", *SHOW).err


def test_a_template_and_a_schedule_have_the_short_list_and_what_is_named(line: Line) -> None:
    line("template", "put", "short", "--env", "OTHER", *SHOW, **MINE)
    assert line("template", "run", "short", MINE="9", LC_TIME="de").out == "unset 2 C unset\n"
    line("add", "--every", "@yearly", "--name", "yearly", "--env", "OTHER", *SHOW, **MINE)
    job_id = line("schedule", "trigger", "yearly", MINE="9", LC_TIME="de").out.strip()
    assert line("wait", job_id).code == 0
    assert line("logs", job_id).out == "unset 2 C unset\n"


@pytest.mark.parametrize("command", ["run", "add"])
def test_a_variable_that_is_not_utf_8_arrives_byte_for_byte(line: Line, command: str) -> None:
    script = ["--", "sh", "-c", "printf %s \"$ODD\" | od -An -v -tx1 | tr -d ' \\n'"]
    line(command, *script, ODD=os.fsdecode(ODD))
    assert line("wait", "@last").code == 0
    assert line("logs", "@last").out == ODD.hex()


def test_a_named_variable_that_is_not_utf_8_arrives_byte_for_byte(line: Line) -> None:
    script = ["--", "sh", "-c", "printf %s \"$ODD\" | od -An -v -tx1 | tr -d ' \\n'"]
    odd = os.fsdecode(ODD)
    assert line("run", "--clean-env", "--env", "ODD", *script, ODD=odd).out == ODD.hex()
    assert line("run", "--env", f"ODD={odd}", *script, ODD="other").out == ODD.hex()
    assert "not UTF-8" in line("template", "put", "odd", "--env", f"ODD={odd}", *script).err


@pytest.mark.parametrize("given", [{"LC_CTYPE": "C"}, {"LC_CTYPE": "C.UTF-8"}, {}])
def test_the_locale_is_that_of_the_caller_and_not_what_python_makes_of_it(line: Line, given: dict[str, str]) -> None:
    """Python sets LC_CTYPE for itself when it starts in the C locale."""
    for name in [name for name in line.env if name.startswith("LC_")]:
        del line.env[name]
    script = ("--", "sh", "-c", "echo ${LC_CTYPE-unset}")
    for options in ((), ("--clean-env",)):
        assert line("run", *options, *script, LANG="C", **given).out == given.get("LC_CTYPE", "unset") + "\n"
    line("add", *script, LANG="C", **given)
    line("wait", "@last")
    assert line("logs", "@last").out == given.get("LC_CTYPE", "unset") + "\n"


def test_pwd_is_the_folder_that_is_given(line: Line, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    assert line("run", "--", "printenv", "PWD", PWD="/logical").out == "/logical\n"
    assert line("run", "-C", "inner", "--", "printenv", "PWD", PWD="/logical").out == f"{tmp_path}/inner\n"


def test_a_secret_reaches_only_the_command(line: Line) -> None:
    for words in (("--env", "API_TOKEN"), ("--clean-env", "--env", "API_TOKEN"), ()):
        script = ("--", "sh", "-c", "test ${#API_TOKEN} = 7")
        assert line("run", *words, *script, API_TOKEN="hunter2").code == 0
        shown = line("show", "@last").out
        assert "API_TOKEN=***" in shown
        assert "hunter2" not in shown + line("show", "@last", "--json").out


def test_show_has_the_names_that_came_along(line: Line) -> None:
    line("run", "--", "true", NODE_ENV="never shown", COMPASS="1")
    shown = line("show", "@last").out
    (names,) = [row.split() for row in shown.splitlines() if row.startswith("environment")]
    assert {"NODE_ENV", "COMPASS"} <= set(names)
    assert "PATH" not in names
    assert "never shown" not in shown


def test_after_a_restart_show_says_which_secrets_are_left_out(home: Path, tmp_path: Path) -> None:
    with Process(home).start() as daemon:
        line = Line(home, tmp_path)
        line("add", "--on-event", "go", "--", "sh", "-c", 'test -z "${API_TOKEN+set}"', API_TOKEN="hunter2")
        assert "left out" not in line("show", "@last").out
        daemon.kill()
        daemon.start()
        shown = line("show", "@last").out
        assert "API_TOKEN=***" not in shown
        (row,) = [row for row in shown.splitlines() if row.startswith("left out")]
        assert "API_TOKEN" in row
        line("emit", "go")
        assert line("wait", "@last").code == 0
