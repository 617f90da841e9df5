"""Wrong words: what is wrong, what is near, exit code 64. Help: short, with examples, for every command."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from semantica_daemon import errors as refusals
from semantica_daemon.cli import errors
from semantica_daemon.cli.commands import COMMANDS, OVERVIEW
from semantica_daemon.cli.errors import in_shell_words
from semantica_daemon.cli.other_words import SAME_HERE
from tests.cases import each_case
from tests.cli.command_line import COMMAND, Line
from tests.client.fake_daemon import answer, peer
from tests.harness import Process

HEAVY = {"rich", "typing", "pathlib", "asyncio", "subprocess", "msgspec", "anyio", "structlog", "tempfile", "shutil",
         "datetime", "difflib", "urllib", "inspect", "logging", "tomllib", "base64", "dataclasses"}  # fmt: skip


OTHER_TOOLS = {
    "top": "status", "ps": "list", "rm": "cancel", "kill": "cancel", "rerun": "retry", "inspect": "show",
    "follow": "logs -f", "pause": "queue pause", "enqueue": "add", "shutdown": "stop", "crontab": "schedule",
    "enable": "service install", "journalctl": "service logs", "reload": "config reload", "watch": "list --watch",
}  # fmt: skip


@pytest.fixture
def bare(home: Path, tmp_path: Path) -> Line:
    """Where no daemon is, and none is needed."""
    return Line(home, tmp_path)


def test_no_words_give_the_overview_and_64(bare: Line) -> None:
    result = bare()
    assert (result.code, result.out, result.err) == (64, "", OVERVIEW)


@each_case("words", [("--help",), ("-h",), ("help",), ("help", "--help"), ("help", "-h"), ("help", "help")])
def test_help_is_the_overview_with_the_exit_codes(bare: Line, words: tuple[str, ...]) -> None:
    result = bare(*words)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(OVERVIEW)
    for code in ("64", "65", "69", "70", "75", "77", "78", "124", "126", "127", "130"):
        assert f" {code} " in result.out


def test_help_with_a_command_is_its_help(bare: Line) -> None:
    assert bare("help", "run") == bare("run", "--help") == bare("help", "run", "--help")


def test_the_overview_names_every_command_and_fits_a_terminal() -> None:
    for name in COMMANDS:
        assert name in OVERVIEW
    assert max(map(len, OVERVIEW.splitlines())) <= 120
    assert len(OVERVIEW.splitlines()) <= 30


def test_every_suggested_command_exists(bare: Line) -> None:
    for suggested in SAME_HERE:
        name, _, rest = suggested.partition(" ")
        assert name in COMMANDS
        if rest and not rest.startswith("-"):
            assert bare(name, rest, "--help").code == 0, suggested


@each_case("name", sorted(COMMANDS))
def test_every_command_has_help_with_examples(bare: Line, name: str) -> None:
    result = bare(name, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"usage: semantica {'list' if name == 'ls' else name}")
    assert name == "version" or "\nexamples:\n  semantica " in result.out or "\nexamples:\n  jq " in result.out
    for option in ("--json", "--quiet", "--no-autostart"):
        assert option in result.out


@each_case(
    ("words", "sentence"),
    [
        (("lst",), "did you mean `semantica list`?"),
        *(((word,), f"did you mean `semantica {same}`?") for word, same in OTHER_TOOLS.items()),
        (("restart", "abcd"), "abcd is not known here"),
        (("cancle", "x"), "did you mean `semantica cancel`?"),
        (("frobnicate",), "`semantica --help` lists the commands"),
        (("--frobnicate",), "is not an option that may precede a command"),
        (("help", "lst"), "did you mean `semantica list`?"),
        (("list", "--quue", "x"), "did you mean --queue?"),
        (("run", "--timout", "1s", "--", "true"), "did you mean --timeout?"),
        (("run", "--queue"), "expected one argument"),
        (("show",), "ID"),
        (("status", "a", "b"), "not a job id"),
        (("wait", "xyz"), "not a job id"),
        (("list", "--js"), "--js is not known here"),
        (("logs", "nosuch"), "job ids contain only 0-9, a-f and -, such as 03a93fac"),
        (("schedule", "run", "x"), "did you mean trigger?"),
        (("schedule", "add", "x"), "did you mean put?"),
        (("add", "--attempts", "0", "--", "true"), "--attempts: with 0 attempts it would never run: give 1 (no retry)"),
        (("add", "--attempts", "zero", "--", "true"), "--attempts: 'zero' is not a whole number"),
        (("add", "--every", "0 3 * *", "--", "true"), "--every: '0 3 * *': it has 4 fields, 5 are needed"),
        (("add", "--every", "often", "--", "true"), "--every: 'often' is not a schedule: write 10m"),
        (("run", "--every", "@daily", "--", "true"), "--every adds a schedule"),
    ],
)
def test_a_wrong_word_is_named_with_what_is_near(bare: Line, words: tuple[str, ...], sentence: str) -> None:
    result = bare(*words)
    assert (result.code, result.out) == (64, "")
    assert result.err.startswith("semantica: ")
    assert len(result.err.splitlines()) <= 2
    assert sentence in result.err


def test_what_every_command_takes_may_stand_before_it(line: Line) -> None:
    assert line("--json", "list").json == line("list", "--json").json
    assert line("-q", "--no-autostart", "list").out == line("list", "-q").out


def test_an_error_of_ours_is_one_sentence_and_70(bare: Line, home: Path) -> None:
    thread = peer(home, lambda stream: answer(stream, b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n'))
    result = bare("list")
    thread.join()
    assert (result.code, result.out) == (70, "")
    assert "KeyError" in result.err
    assert "Traceback" not in result.err


def test_semantica_debug_prints_the_traceback(bare: Line, home: Path) -> None:
    thread = peer(home, lambda stream: answer(stream, b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n'))
    result = bare("list", SEMANTICA_DEBUG="1")
    thread.join()
    assert "Traceback" in result.err


@each_case("words", [("list", "--all"), ("events",), ("queue",), ("status",)])
def test_a_reader_that_has_gone_is_no_reason_to_complain(line: Line, words: tuple[str, ...]) -> None:
    line("add", "--", "true")
    begun = line.start(*words)
    assert begun.process.stdout is not None
    begun.process.stdout.close()
    begun.process.stdout = None
    assert begun.process.wait(20) in (0, 141)  # nothing to say, or nobody to say it to
    assert begun.process.stderr is not None
    assert begun.process.stderr.read() == b""


def test_a_full_disk_behind_stdout_is_reported(line: Line) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "paths"], stdout=full, stderr=subprocess.PIPE, env=line.env, text=True)
    assert done.returncode == 70
    assert "cannot write to stdout" in done.stderr


def test_closed_streams_do_no_harm(line: Line, daemon: Process) -> None:
    """The connection must not get the number of a stream that is closed."""
    for closed in ("1>&-", "2>&-", "0<&-", "0<&- 1>&- 2>&-"):
        script = f"exec {sys.executable} -m semantica_daemon.cli run -- sh -c 'echo out; echo err >&2' {closed}"
        done = subprocess.run(["sh", "-c", script], capture_output=True, env=line.env, text=True, cwd=line.cwd)
        assert done.returncode == 0
        assert done.stdout == ("" if "1>&-" in closed else "out\n")
        assert done.stderr == ("" if "2>&-" in closed else "err\n")


def test_an_old_terminal_is_no_obstacle(line: Line) -> None:
    line("run", "--", "true")
    for words in (("--help",), ("run", "--help"), ("doctor",), ("list",)):
        result = line(*words, PYTHONIOENCODING="ascii")
        assert (result.code, result.err) == (0, "")


@each_case(
    "words",
    [
        ("add", "--", "true"), ("add", "--after", "1ms", "--when-idle", "-s", "x", "--debounce", "1ms", "--", "true"),
        ("run", "--", "true"), ("rpc", "admin.health"), ("list",), ("wait", "@last"), ("paths",),
        ("emit", "x=y"), ("why", "@last"), ("schedule",), ("template",), ("machine",),
    ],
)  # fmt: skip
def test_nothing_is_imported_that_is_not_needed(line: Line, daemon: Process, words: tuple[str, ...]) -> None:
    line("add", "--", "true")
    command = [sys.executable, "-X", "importtime", *COMMAND[1:], *words]
    done = subprocess.run(command, capture_output=True, env=line.env, text=True, cwd=line.cwd)
    assert done.returncode == 0
    rows = [row for row in done.stderr.splitlines() if row.startswith("import time:")]
    imported = {row.rpartition("|")[2].strip().partition(".")[0] for row in rows}
    assert imported & HEAVY == set()


def test_a_hint_on_the_command_line_names_no_method(line: Line) -> None:
    line("add", "--after", "1h", "--", "true")
    for words in (("show", "00000000"), ("logs", "--run", "9"), ("schedule", "show", "x"), ("template", "show", "x")):
        result = line(*words)
        assert (result.code, "`semantica " in result.err) == (65, True)
    hints = hints_that_name_methods()
    assert len(hints) >= 5
    for hint in hints:
        assert not METHOD_NAMES.search(in_shell_words(hint)), hint


METHOD_NAMES = re.compile(r"(?<![\w.])(job|queue|event|template|schedule|machine|admin|rpc)\.[a-z]+(?![\w.])")


def hints_that_name_methods() -> set[str]:
    """The second argument of each refusal, and each value named `hint`, in the code of the daemon."""
    found = set()
    for folder in ("model", "store", "engine"):
        for file in (Path(errors.__file__).parent.parent / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                named = isinstance(node, ast.Call) and ast.unparse(node.func) in vars(refusals) and node.args[1:2]
                values = named or ([node.value] if isinstance(node, ast.Assign) and "hint" in ast.unparse(node) else [])
                found |= {one.value for value in values for one in ast.walk(value) if isinstance(one, ast.Constant)}
    return {hint for hint in found if isinstance(hint, str) and METHOD_NAMES.search(hint)}
