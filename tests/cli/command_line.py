"""The command line as its users have it: a process with words, streams, and perhaps a terminal."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [sys.executable, "-m", "semantica_daemon.cli"]


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Line:
    def __init__(self, home: Path, cwd: Path, **env: str) -> None:
        ours = ("SEMANTICA_", "PYTHONUNBUFFERED")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        self.env = {**clean, "SEMANTICA_HOME": str(home), "TZ": "UTC", **env}
        self.cwd = cwd

    def __call__(self, *words: str, stdin: str | bytes = "", **env: str) -> Result:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [*COMMAND, *words], input=data, capture_output=True, env={**self.env, **env}, cwd=self.cwd, timeout=50
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str, stdin: int = subprocess.DEVNULL, **env: str) -> "StartedCommand":
        """Goes on by itself; its streams can be read as they come."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=stdin,
            stdout=pipe,
            stderr=pipe,
            env={**self.env, **env},
            cwd=self.cwd,
        )
        return StartedCommand(process)

    def on_terminal(self, *words: str, **env: str) -> Result:
        """With stdout and stderr on a terminal of 100 columns; both in `out`."""
        return self.start_on_terminal(*words, **env).result()

    def start_on_terminal(self, *words: str, **env: str) -> "StartedOnTerminal":
        main, other = pty.openpty()
        settings = {**self.env, "TERM": "xterm-256color", "COLUMNS": "100", **env}
        process = subprocess.Popen(
            [*COMMAND, *words], stdin=other, stdout=other, stderr=other, env=settings, cwd=self.cwd
        )
        os.close(other)
        return StartedOnTerminal(process, main)


class StartedOnTerminal:
    def __init__(self, process: "subprocess.Popen[bytes]", terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._seen = b""

    def until(self, text: str, seconds: float = 40) -> str:
        """What the terminal shows so far, once the text is in it."""
        end = time.monotonic() + seconds
        while text not in self._text():
            assert self._read(max(0, end - time.monotonic())), f"{text!r} is not in {self._text()!r}"
        return self._text()

    def result(self) -> Result:
        while self._read(50):
            pass
        os.close(self._terminal)
        return Result(self.process.wait(50), self._text(), "")

    def _text(self) -> str:
        return self._seen.decode(errors="replace").replace("\r\n", "\n")

    def _read(self, seconds: float) -> bytes:
        """Nothing when the time is up or no process has the other end open any more (EIO)."""
        ready, _, _ = select.select([self._terminal], [], [], seconds)
        try:
            piece = os.read(self._terminal, 65_536) if ready else b""
        except OSError:
            piece = b""
        self._seen += piece
        return piece


class StartedCommand:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._seen = {"out": b"", "err": b""}

    def until(self, text: str, stream: str = "out", seconds: float = 40) -> str:
        """The output on that stream so far, once the text is in it."""
        pipe = self.process.stdout if stream == "out" else self.process.stderr
        assert pipe is not None
        end = time.monotonic() + seconds
        while text.encode() not in self._seen[stream]:
            ready, _, _ = select.select([pipe], [], [], max(0, end - time.monotonic()))
            piece = os.read(pipe.fileno(), 65_536) if ready else b""
            assert piece, f"{text!r} is not in {self._seen[stream]!r}"
            self._seen[stream] += piece
        return self._seen[stream].decode()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def result(self) -> Result:
        """Its whole output and its exit code, once it has ended."""
        out, err = self.process.communicate(timeout=50)
        return Result(self.process.returncode, (self._seen["out"] + out).decode(), (self._seen["err"] + err).decode())
