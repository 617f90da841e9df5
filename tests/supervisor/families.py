"""Real processes for tests: children that stay, forget their parents or hide, and are gone when the test is over."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from semantica_daemon.processes import marks, table

# Prints its own pid and those it made, then waits. `{fork}` is what makes the others.
PARENT = """
import json, os, signal, sys, time
def child(*steps):
    '''Forks; in the child does each step, tells its pid and waits.'''
    reading, writing = os.pipe()
    if os.fork() == 0:
        for step in steps:
            step()
        os.write(writing, str(os.getpid()).encode())
        os.close(writing)
        while True:
            time.sleep(60)
    os.close(writing)
    return int(os.read(reading, 20))
def twice():
    '''Forks once more, and goes on when the process in the middle is gone.'''
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == middle:
        time.sleep(0.001)
def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
def bare():
    os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)'], {})
def headless():
    '''Two forks and a session away, and only its second thread is left: its first one is a zombie.'''
    import ctypes, platform, threading
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        twice()
        threading.Thread(target=time.sleep, args=(600,)).start()
        os.write(writing, str(os.getpid()).encode())
        ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)
    pid = int(os.read(reading, 20))
    while open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[0] != 'Z':
        time.sleep(0.001)
    return pid
def hidden():
    '''Two forks and a session away, without parents and without an environment; there when its pid is told.'''
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        twice()
        os.write(writing, str(os.getpid()).encode())
        bare()
    pid = int(os.read(reading, 20))
    while open(f'/proc/{pid}/environ').read():
        time.sleep(0.001)
    return pid
"""


def parent(body: str) -> str:
    """A Python program in which `child(...)` makes processes; what `told` is made of is printed as JSON."""
    return PARENT + body


def python(program: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", program]


def start(program: str, env: dict[str, str] | None = None) -> tuple["subprocess.Popen[bytes]", list[int]]:
    """The process, in a session of its own, and the pids that it prints as its first line."""
    process = subprocess.Popen(python(program), stdout=subprocess.PIPE, env=env, start_new_session=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def is_there(pid: int) -> bool:
    """A zombie is not."""
    return table.find_process(pid) is not None


def until(condition: Callable[[], bool], seconds: float = 40) -> None:
    """Bounded polling on a real condition."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        time.sleep(0.005)


def marked(run_id: str) -> list[int]:
    """All that is there of a run, by its mark; the whole of /proc is looked at."""
    return [pid for pid in table.own_processes() if is_there(pid) and marks.run_id_of(pid) == run_id]


def below(folder: Path) -> list[int]:
    """All that works in that folder or below it."""
    found = []
    for pid in table.own_processes():
        with suppress(OSError):
            if Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(folder) and is_there(pid):
                found.append(pid)
    return found


def end(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
