"""Two marks by which a process shows its run: SEMANTICA_RUN_ID in its environment, and a tag in one of its resource
limits. Children inherit both. A process that executes another program with an empty environment loses the first only.

The tag is a 16-bit hash of the run id, subtracted from the soft limit RLIMIT_MSGQUEUE (bytes in POSIX message queues),
so that a daemon can compute it for every run it knows. On systems without that limit there are no tags.
"""

import resource
from binascii import crc32

from semantica_daemon.processes.table import read_file, tasks_of

RUN_ID = b"SEMANTICA_RUN_ID="
SUPERVISOR = b"SEMANTICA_SUPERVISOR="
LIMIT = getattr(resource, "RLIMIT_MSGQUEUE", None)
LIMIT_NAME = b"Max msgqueue size"
LARGEST_TAG = 0xFFFF
SMALLEST_LIMIT = 4 * LARGEST_TAG  # below that a tag would take a noticeable part of the limit
UNLIMITED = 1 << 30  # stands for a limit of infinity, which nothing can be subtracted from


class Tags:
    """Writes and reads tags relative to the limit of this process at construction."""

    def __init__(self) -> None:
        soft, self._hard = resource.getrlimit(LIMIT) if LIMIT is not None else (0, 0)
        self._untagged = UNLIMITED if soft == resource.RLIM_INFINITY else soft
        self.supported = self._untagged >= SMALLEST_LIMIT

    def tag_next_spawn(self, tag: int) -> None:
        """Tags every process spawned after this call; 0 removes the tag."""
        if LIMIT is not None and self.supported:
            resource.setrlimit(LIMIT, (self._untagged - tag, self._hard))

    def tag_of(self, pid: int) -> int:
        """0 if the process has no tag or is gone."""
        value = read_file(f"/proc/{pid}/limits").partition(LIMIT_NAME)[2].split(maxsplit=1)[:1]
        tag = self._untagged - int(value[0]) if value and value[0].isdigit() else 0
        return tag if 0 < tag <= LARGEST_TAG else 0


def tag_for(run_id: str) -> int:
    """1 to LARGEST_TAG. Two runs share a tag with a probability of 1 in 65,535."""
    return crc32(run_id.encode()) % LARGEST_TAG + 1


def run_id_of(pid: int) -> str | None:
    """The run id in the environment that the process started with; None if there is none."""
    return run_id_in(environment_of(pid))


def run_id_in(environment: list[bytes]) -> str | None:
    for variable in environment:
        if variable.startswith(RUN_ID):
            return variable[len(RUN_ID) :].decode("utf-8", "replace")
    return None


def environment_of(pid: int) -> list[bytes]:
    """As NAME=value. If the first thread of the process has ended, the environment is read through another thread."""
    text = read_file(f"/proc/{pid}/environ")
    if not text:
        text = b"".join(read_file(f"/proc/{pid}/task/{task}/environ") for task in tasks_of(pid))
    return text.split(b"\0")
