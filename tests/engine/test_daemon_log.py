"""What semanticad says, and where: the line its starter waits for, the log file and those before it, and --check."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semantica_daemon import logs
from tests.descriptors import descriptor_targets
from tests.engine.test_start import semanticad, snapshot
from tests.harness import Process

TALKER = """
import os, sys
def talk(ctx, payload):
    print("by print", payload["word"])
    sys.stderr.write("by stderr " + payload["word"] + chr(10))
    sys.stdout.buffer.write(b"by buffer " + payload["word"].encode() + b"\\n")
    os.write(1, b"by descriptor " + payload["word"].encode() + b"\\n")
    raise ValueError("so that the daemon logs a line")
"""
WAYS = ("print", "stderr", "buffer", "descriptor")


class Logging(Process):
    """Logs to daemon.log and tells the test when it is ready."""

    def begin(self, log: Path | None = None) -> str:
        """Returns what was said to the starter."""
        (self.home / "config.toml").write_text('handler_path = ["."]\n[handlers]\nTALK = "talker:talk"\n')
        (self.home / "talker.py").write_text(TALKER)
        reader, writer = os.pipe()
        options = ["--ready-fd", str(writer), "--log-file", str(log or self.log)]
        with open(self.home / "stderr.log", "ab") as stderr:
            command = [sys.executable, "-m", "semantica_daemon", *options]
            streams = {"stdin": subprocess.DEVNULL, "stderr": stderr, "stdout": stderr}
            self.process = subprocess.Popen(command, env=self.environment, pass_fds=(writer,), **streams)  # type: ignore[call-overload]
        os.close(writer)
        with open(reader) as told:
            return told.read()

    @property
    def log(self) -> Path:
        return self.home / "daemon.log"

    def talk(self, word: str) -> None:
        """A handler says it in every way there is, then fails, which is worth a line of the daemon itself."""
        job_id = self.call("job.enqueue", job_type="TALK", payload={"word": word})["job_id"]
        assert self.call("job.wait", job_id=job_id)["finished"]

    def lines(self, old: int = 0) -> list[str]:
        name = f"{self.log}.{old}" if old else str(self.log)
        return Path(name).read_bytes().lstrip(b"\0").decode().splitlines()


@pytest.fixture
def process(home: Path) -> Iterator[Logging]:
    one = Logging(home)
    with one:
        yield one


def grow(path: Path) -> None:
    """To the size at which it is put aside; what is added is NULs."""
    os.truncate(path, logs.MOST_BYTES)


def test_whoever_has_started_it_reads_one_line_and_the_end(process: Logging) -> None:
    assert process.begin() == "ready\n"
    assert process.call("admin.health")["status"] == "ready"
    assert process.process is not None
    targets = descriptor_targets(process.process.pid).values()
    assert not [target for target in targets if target.startswith("pipe:")]


@pytest.mark.parametrize("number", [1, 2])
def test_the_line_may_go_to_a_descriptor_that_becomes_the_log(process: Logging, number: int) -> None:
    reader, writer = os.pipe()
    options = ["--ready-fd", str(number), "--log-file", str(process.log)]
    command = [sys.executable, "-m", "semantica_daemon", *options]
    both = {1: {"stdout": writer}, 2: {"stderr": writer}}
    process.process = subprocess.Popen(command, env=process.environment, **both[number])  # type: ignore[call-overload]
    os.close(writer)
    with open(reader) as told:
        assert told.read() == "ready\n"


def test_a_refusal_is_told_too(process: Logging) -> None:
    process.start()
    second = Logging(process.home)
    with second:
        assert "another semanticad already runs" in second.begin()
        assert second.process is not None
        assert second.process.wait(40) == 75


def test_a_descriptor_that_is_not_open_is_wrong_usage(home: Path) -> None:
    left = semanticad("--ready-fd", "999", SEMANTICA_HOME=str(home))
    assert (left.returncode, "999 is no open descriptor" in left.stderr) == (64, True)


def test_everything_goes_to_the_file_and_nothing_to_stderr(process: Logging) -> None:
    process.begin()
    process.talk("hello")
    assert process.stop() == 0
    assert process.stderr() == ""
    assert process.log.stat().st_mode & 0o777 == 0o600
    said = process.lines()
    assert [line for line in said if line.startswith("by ")] == [f"by {way} hello" for way in WAYS]
    events = [json.loads(line)["event"] for line in said if not line.startswith("by ")]
    assert events[-2:] == ["daemon_stopping", "stopped"]
    assert {"ready", "job_failed"} <= set(events)


def test_a_file_that_has_grown_is_put_aside_and_the_oldest_forgotten(process: Logging) -> None:
    for number in (1, 2, 3):
        Path(f"{process.log}.{number}").write_text(f"old {number}\n")
    process.begin()
    process.talk("before")
    grow(process.log)
    process.talk("after")
    assert [f"by {way} before" in process.lines(1) for way in WAYS] == [True] * 4
    assert [f"by {way} after" in process.lines() for way in WAYS] == [True] * 4
    assert (process.lines(2), process.lines(3)) == (["old 1"], ["old 2"])
    names = {one.name for one in process.home.iterdir() if one.name.startswith("daemon.log")}
    assert names == {"daemon.log", "daemon.log.1", "daemon.log.2", "daemon.log.3"}
    assert _descriptors(process) == [str(process.log)] * 2


def _descriptors(process: Logging) -> list[str]:
    assert process.process is not None
    return [os.readlink(f"/proc/{process.process.pid}/fd/{number}") for number in (1, 2)]


def test_a_large_file_of_the_daemon_before_is_put_aside_at_start(process: Logging) -> None:
    process.log.touch()
    grow(process.log)
    process.begin()
    assert process.log.stat().st_size < logs.MOST_BYTES == Path(f"{process.log}.1").stat().st_size


def test_a_file_that_another_process_has_put_aside_is_not_put_aside_again(process: Logging) -> None:
    process.begin()
    os.rename(process.log, f"{process.log}.1")
    process.log.write_text("of another\n")
    grow(Path(f"{process.log}.1"))
    process.talk("mine")
    assert process.lines()[0] == "of another"
    assert "by print mine" in process.lines()
    assert not Path(f"{process.log}.2").exists()


def test_a_file_that_was_removed_is_made_again(process: Logging) -> None:
    process.begin()
    process.log.unlink()
    process.talk("still here")
    assert "by print still here" in process.lines()


def test_a_log_that_cannot_be_written_keeps_nobody_and_is_taken_up_when_it_can(process: Logging) -> None:
    blocked = process.home / "blocked"
    blocked.write_text("a file, where a folder is needed")
    assert process.begin(blocked / "daemon.log") == "ready\n"
    assert "cannot write its log" in process.stderr()
    process.talk("lost")
    blocked.unlink()
    process.talk("kept")
    assert "by print kept" in (blocked / "daemon.log").read_text()


def test_check_says_whether_the_configuration_is_right_and_starts_nothing(empty_home: Path) -> None:
    before = snapshot(empty_home)
    left = semanticad("--check", SEMANTICA_HOME=str(empty_home / "new"))
    assert (left.returncode, "defaults" in left.stdout) == (0, True)
    assert snapshot(empty_home) == before
    (empty_home / "config.toml").write_text("[daemon]\nmax_slots = 3\n")
    left = semanticad("--check", SEMANTICA_HOME=str(empty_home))
    assert (left.returncode, left.stdout, left.stderr) == (0, f"{empty_home / 'config.toml'} is valid\n", "")
    assert [one.name for one in empty_home.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("text", ["[daemon]\nmax_slot = 3\n", '[handlers]\nBAD = "no_such_module:f"\n'])
def test_check_says_what_is_wrong(empty_home: Path, text: str) -> None:
    (empty_home / "config.toml").write_text(text)
    left = semanticad("--check", SEMANTICA_HOME=str(empty_home))
    assert left.returncode == 78
    assert "max_slots" in left.stderr or "no_such_module" in left.stderr
    assert [one.name for one in empty_home.iterdir()] == ["config.toml"]
