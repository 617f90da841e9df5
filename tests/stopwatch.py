"""A stopwatch for promises about time that stands still while the machine is busy with other work."""

import os
import time
from contextlib import suppress
from pathlib import Path


class Stopwatch:
    """Measures from its creation on. Time in which the test, or a process that it names, is ready to run but waits
    for a CPU is not counted, twice where both wait: a lower bound of what it takes on a machine without load."""

    def __init__(self, *pids: int) -> None:
        self._waited = {pid: waited_for_cpu(pid) for pid in (os.getpid(), *pids)}
        self._began = time.monotonic()

    def seconds(self, *started: int) -> float:
        """Seconds until now; `started` are processes that began to run meanwhile."""
        took = time.monotonic() - self._began
        waits = {pid: waited_for_cpu(pid) - self._waited.get(pid, 0) for pid in {*self._waited, *started}}
        return took - sum(max(0.0, wait) for wait in waits.values())


def waited_for_cpu(pid: int) -> float:
    """Seconds that the main thread of a process has been ready to run and waited; 0 where nothing tells."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    return 0.0
