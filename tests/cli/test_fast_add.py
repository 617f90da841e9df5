"""The fast path of `semantica add`: the same spec as the ordinary path, little imported, every surprise handed over."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.cli import add, fast_add, job_options
from semantica_daemon.cli.parser import Parser
from tests.cases import each_case
from tests.cli.command_line import COMMAND, Line
from tests.client.fake_daemon import answer, peer
from tests.harness import Process

ACK: dict[str, Any] = {"job_id": "3f2a0000-0000-4000-8000-000000000000", "queue": "default", "state": "QUEUED"}
ACK |= {"generation": None}
ACK |= {"superseded": [], "existing": False, "warnings": []}

FAST = [
    ["--", "true"], ["-q", "--", "true"], ["--quiet", "--durable", "--", "make", "-j", "4"],
    ["-Q", "build", "-t", "nightly", "--", "make"], ["--queue", "a", "--queue", "b", "--", "x"],
    ["-g", "group", "-k", "key", "--no-autostart", "--", "/bin/echo", "--", "-q"],
    ["-s", "a.py", "--", "lint", "a.py"], ["--subject", "a b", "--", "lint", "x" * 300], ["--", "y" * 300],
    ["--", "", "x"], ["--", "dir/"], ["--", "ü", "\u2028", "\"quoted\" \\ \n\t\x01", "\U0001f600"],
    ["--key", "schlüssel", "--tag", "\"", "--group", "g", "--", "true"], ["-s", "'", "--", "-x"],
]  # fmt: skip
ORDINARY = [
    [], ["true"], ["--"], ["--json", "--", "true"], ["--queue=x", "--", "true"], ["-Qx", "--", "true"],
    ["-Q", "", "--", "true"], ["-Q", "-x", "--", "true"], ["-Q"], ["-Q", "--", "true"], ["--at", "10m", "--", "true"],
    ["true", "--", "x"], ["-t", "a", "true", "--", "x"], ["--qeueu", "x", "--", "true"], ["--", "\udcff"],
    ["-t", "\udcff", "--", "true"], ["-e", "A=1", "--", "true"], ["--every", "@daily", "--", "true"],
]  # fmt: skip


def ordinary(arguments: list[str]) -> Any:
    return job_options.job_spec(Parser("add", add.COMMAND).parse(arguments))


@each_case("arguments", FAST)
@each_case("env", [{}, {"LC_ALL": "C", "XDG_X": "ü\n", "SECRET_TOKEN": "x", "LC_BAD": "\udcff"}])
def test_the_fast_path_makes_the_spec_of_the_ordinary_path(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], env: dict[str, str]
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    spec, quiet = fast_add.parse(arguments)
    assert spec == ordinary(arguments)
    assert quiet == ("-q" in arguments[: arguments.index("--")] or "--quiet" in arguments)
    sent = json.loads(fast_add.request(spec))
    assert sent == {"jsonrpc": "2.0", "id": 1, "method": "job.enqueue", "params": spec}


@each_case("arguments", ORDINARY)
def test_other_arguments_are_left_to_the_ordinary_path(arguments: list[str]) -> None:
    with pytest.raises(ValueError, match=r".*"):
        fast_add.parse(arguments)


def imported_by(line: Line, *words: str) -> tuple[str, set[str]]:
    command = [sys.executable, "-X", "importtime", "-I", "-S", "-c", BARE, os.getcwd(), *words]
    done = subprocess.run(command, capture_output=True, env=line.env, text=True, cwd=line.cwd)
    rows = [row for row in done.stderr.splitlines() if row.startswith("import time:")]
    return done.stdout, {row.rpartition("|")[2].strip() for row in rows}


BARE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from semantica_daemon.cli.__main__ import main; main()"


def test_the_fast_path_imports_next_to_nothing(line: Line, daemon: Process) -> None:
    out, imported = imported_by(line, "add", "-q", "-t", "fast", "--", "true")
    assert daemon.call("job.get", job_id=out.strip())["user_tag"] == "fast"
    assert not imported & {"json", "socket", "argparse", "re", "pathlib", "typing", "collections", "enum", "site"}
    assert {name for name in imported if name.startswith("semantica_daemon")} == {
        "semantica_daemon", "semantica_daemon.cli", "semantica_daemon.cli.__main__", "semantica_daemon.cli.fast_add",
        "semantica_daemon.cli.last_job", "semantica_daemon.paths",
        "semantica_daemon.environment",
    }  # fmt: skip


def test_it_prints_and_remembers_the_id(line: Line, daemon: Process) -> None:
    result = line("add", "--", "true")
    assert (result.code, result.err) == (0, "")
    assert (daemon.home / "last").read_text() == result.out
    assert daemon.call("job.get", job_id=result.out.strip())["payload"]["cwd"] == str(line.cwd.resolve())


def test_what_is_unusual_in_the_reply_is_reported_as_ever(line: Line) -> None:
    line("queue", "pause", "--create", "fast")
    older = line("add", "-Q", "fast", "-s", "fast", "--", "true").out
    newer = line("add", "-Q", "fast", "-s", "fast", "--", "true")
    assert newer.err == f"semantica: job {newer.out[:8]} supersedes 1 older job: {older[:8]}\n"
    assert line("add", "-q", "-Q", "fast", "-s", "fast", "--", "true").err == ""
    refused = line("add", "-Q", "a b", "--", "true")
    assert (refused.code, refused.out) == (64, "")
    assert "--queue: " in refused.err


def reply(ack: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": ack}, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(
    ("parts", "code", "out", "err"),
    [
        ([reply(ACK)], 0, f"{ACK['job_id']}\n", ""),
        ([reply(ACK)[:50], reply(ACK)[50:]], 0, f"{ACK['job_id']}\n", ""),
        ([reply(ACK | {"warnings": ["beware"]})], 0, f"{ACK['job_id']}\n", "semantica: beware\n"),
        ([b""], 69, "", "the daemon closed the connection"),
        ([b"HTTP/1.1 400 Bad Request\n"], 69, "", "is not a Semantica daemon"),
        (
            [b'{"jsonrpc":"2.0","id":1,"error":{"code":4003,"message":"full","data":{"retryable":true}}}\n'],
            75,
            "",
            "full",
        ),
    ],
)
def test_any_reply_is_understood(home: Path, tmp_path: Path, parts: list[bytes], code: int, out: str, err: str) -> None:
    thread = peer(home, lambda stream: answer(stream, *parts))
    result = Line(home, tmp_path)("add", "--", "true")
    thread.join()
    assert (result.code, result.out) == (code, out)
    assert err in result.err
    assert bool(err) == bool(result.err)


def test_a_full_disk_behind_stdout_is_reported(line: Line) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "add", "--", "true"], stdout=full, stderr=subprocess.PIPE, env=line.env, text=True, cwd=line.cwd
        )
    assert done.returncode == 70
    assert "cannot write to stdout" in done.stderr


def test_a_closed_pipe_behind_stdout_is_141(line: Line) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, "add", "--", "true"], stdout=writer, stderr=subprocess.PIPE, env=line.env, cwd=line.cwd
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
