"""Open file descriptors of a process, as /proc lists them."""

import os
from contextlib import suppress
from pathlib import Path


def own_descriptors() -> list[str]:
    """Of this process. A test that counts them uses the fixture `no_garbage_collection`."""
    return sorted(os.listdir("/proc/self/fd"))


def descriptor_targets(pid: int) -> dict[int, str]:
    """The target of each descriptor of another process; one that it closes meanwhile is left out."""
    targets = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            targets[int(entry.name)] = os.readlink(entry)
    return targets
