"""How long a daemon takes to stop, whatever its runs do: systemd's TimeoutStopSec is never reached."""

import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.config import Config
from semantica_daemon.serving import STOP_MARGIN_MS
from tests.conftest import ROOT
from tests.crash import process_list
from tests.engine import sample_handlers
from tests.harness import PATIENCE_S, Process
from tests.rpc.wire import rows
from tests.stopwatch import Stopwatch

# Says that SIGTERM no longer ends it, and leaves a grandchild in a session of its own that does not listen either.
STUBBORN = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork() or os.setsid();"
    "print('deaf', flush=True); time.sleep(600)"
)
PAYLOAD = {"argv": [sys.executable, "-ISc", STUBBORN], "cwd": "/"}
COMMAND: dict[str, Any] = {"job_type": "deaf command", "payload": PAYLOAD}


def unit_setting(name: str) -> int:
    text = (ROOT / "systemd" / "semantica.service").read_text()
    (seconds,) = re.findall(rf"^{name}=(\d+)$", text, re.MULTILINE)
    return int(seconds)


def seconds_to_stop(home: Path, runs: int) -> float:
    """Of a daemon in which that many commands and a few handlers ignore every request to stop."""
    with Process(home).start() as process:
        for _ in range(runs):
            process.call("job.enqueue", **COMMAND)
        for job_type in ("deaf", "stubborn"):
            process.call("job.enqueue", job_type=job_type)
        give_up = time.monotonic() + PATIENCE_S
        while len(process_list.processes(home)) < 2 * runs:
            assert time.monotonic() < give_up, "not all of them are there"
            time.sleep(0.02)
        assert process.process is not None
        watch = Stopwatch(process.process.pid, *process_list.supervisors(home))
        process.process.terminate()
        assert process.process.wait(60) == 0
        took = watch.seconds()
    process_list.check_empty(home)
    assert rows(home, "SELECT DISTINCT state, json_extract(error, '$.code') FROM jobs") == [("FAILED", "E_SHUTDOWN")]
    return took


def test_many_stubborn_runs_are_ended_within_the_margin_after_their_grace(home: Path) -> None:
    (home / "config.toml").write_text(sample_handlers.config(slots=12, grace_ms=300))
    assert 0.3 <= seconds_to_stop(home, runs=10) < 0.3 + STOP_MARGIN_MS / 1000


@pytest.mark.soak
def test_with_the_default_grace_a_hundred_of_them_do_not_reach_the_limit_of_systemd(home: Path) -> None:
    grace_ms = Config().daemon.grace_ms
    (home / "config.toml").write_text(sample_handlers.config(slots=102, grace_ms=grace_ms))
    assert seconds_to_stop(home, runs=100) < unit_setting("TimeoutStopSec")


def test_the_unit_allows_twice_the_margin_after_the_default_grace() -> None:
    default = (Config().daemon.grace_ms + STOP_MARGIN_MS) / 1000
    assert unit_setting("TimeoutStopSec") >= 2 * default
