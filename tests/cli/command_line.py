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

    def start(self, *words: str, **env: str) -> "StartedCommand":
        """Goes on by itself; its streams can be read as they come."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env={**self.env, **env},
            cwd=self.cwd,
        )
        return StartedCommand(process)

    def on_terminal(self, *words: str, **env: str) -> Result:
        """With stdout and stderr on a terminal of 100 columns; both in `out`."""
        main, other = pty.openpty()
        settings = {**self.env, "TERM": "xterm-256color", "COLUMNS": "100", **env}
        process = subprocess.Popen(
            [*COMMAND, *words], stdin=other, stdout=other, stderr=other, env=settings, cwd=self.cwd
        )
        os.close(other)
        output = b""
        try:
            while piece := os.read(main, 65_536):
                output += piece
        except OSError:  # EIO: no process has the other end open any more
            pass
        os.close(main)
        return Result(process.wait(50), output.decode().replace("\r\n", "\n"), "")


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
