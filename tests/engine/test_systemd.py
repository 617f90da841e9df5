"""The daemon under systemd: it listens on the socket that systemd has opened, and reports its states by sd_notify."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.test_start import refused
from tests.harness import PATIENCE_S, Process

ACTIVATE = shutil.which("systemd-socket-activate") or ""
ACCEPTS_CONNECTIONS = b"00010000"  # a flag of the kernel's table of sockets
PASSED_ON = ("SEMANTICA_HOME", "SEMANTICA_SOCKET", "HOME", "PATH", "PYTHONPYCACHEPREFIX")


class Activated(Process):
    """A daemon that `systemd-socket-activate` starts at the first connection."""

    def start(self, ready: bool = True) -> "Activated":
        if not ACTIVATE:
            pytest.skip("NOT TESTED: systemd-socket-activate is not installed")
        passed_on = [f"--setenv={name}={value}" for name, value in self.environment.items() if name in PASSED_ON]
        command = [ACTIVATE, f"--listen={self.socket}", *passed_on, sys.executable, "-m", "semantica_daemon"]
        with open(self.home / "stderr.log", "ab") as log:
            self.process = subprocess.Popen(command, env=self.environment, stderr=log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while not is_listening(self.socket):
            assert time.monotonic() < until, self.stderr()
            time.sleep(0.01)
        return self


def is_listening(path: Path) -> bool:
    """Found out without a connection, which would start the daemon. Paths of other sockets may be no UTF-8."""
    rows = (row.split() for row in Path("/proc/net/unix").read_bytes().splitlines())
    return any(row[-1] == bytes(path) and row[3] == ACCEPTS_CONNECTIONS for row in rows)


def test_the_first_connection_starts_the_daemon_and_is_served(home: Path) -> None:
    with Activated(home).start() as daemon:
        inode = daemon.socket.stat().st_ino
        payload = {"argv": ["sh", "-c", "env; ls -l /proc/self/fd"], "cwd": "/"}
        job_id = daemon.call("job.enqueue", job_type="sh", execution_mode="SUBPROCESS", payload=payload)["job_id"]
        assert daemon.call("job.wait", job_id=job_id)["job"]["state"] == "DONE"
        output = daemon.call("job.logs", job_id=job_id)["chunk"]
        assert "SEMANTICA_RUN_ID" in output
        assert "LISTEN_" not in output
        assert "socket:" not in output, "the job does not inherit the socket"
        assert daemon.stop() == 0
        assert daemon.socket.stat().st_ino == inode, "the file belongs to systemd, which starts the next daemon"


def test_a_socket_of_another_path_is_refused(home: Path) -> None:
    """Clients would not find the daemon."""
    with Activated(home, SEMANTICA_SOCKET=str(home / "other")).start() as daemon:
        daemon.connect().close()
        assert daemon.process is not None
        assert daemon.process.wait(PATIENCE_S) == 78
        assert "semantica service install" in daemon.stderr()


@contextmanager
def notify_socket(home: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(home / "notify"))
        receiver.settimeout(PATIENCE_S)
        yield receiver


def receive(receiver: socket.socket, state: str) -> list[str]:
    """The states of the first message that has this one."""
    while state not in (states := receiver.recv(65_536).decode().split("\n")):
        pass
    return states


def test_it_reports_ready_alive_and_stopping(home: Path) -> None:
    (home / "config.toml").write_text("[daemon]\ngrace_ms = 7000\n")
    with notify_socket(home) as receiver:
        env = {"NOTIFY_SOCKET": str(home / "notify"), "WATCHDOG_USEC": "200000"}
        with Process(home, **env).start(ready=False) as daemon:
            receive(receiver, "READY=1")
            assert daemon.call("admin.health")["status"] == "ready"
            for _ in range(3):
                assert "STATUS=running jobs: 0" in receive(receiver, "WATCHDOG=1")
            daemon.signal(signal.SIGTERM)
            assert "EXTEND_TIMEOUT_USEC=17000000" in receive(receiver, "STOPPING=1")


def test_a_refused_start_reports_its_reason(home: Path) -> None:
    (home / "config.toml").write_text("[daemon]\nmax_slot = 3\n")
    with notify_socket(home) as receiver:
        refused(78, "max_slots", SEMANTICA_HOME=str(home), NOTIFY_SOCKET=str(home / "notify"))
        (status,) = receiver.recv(65_536).decode().split("\n")
        assert status.startswith("STATUS=")
        assert "did you mean max_slots?" in status


def test_variables_for_another_process_are_ignored(home: Path) -> None:
    """LISTEN_PID and WATCHDOG_PID name the process that systemd means; a parent may have left them."""
    env = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "WATCHDOG_PID": str(os.getpid()), "WATCHDOG_USEC": "1"}
    with Process(home, **env).start() as daemon:
        assert daemon.socket.is_socket()
        assert daemon.stop() == 0
        assert not daemon.socket.exists()
