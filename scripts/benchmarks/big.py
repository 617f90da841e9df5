"""A handler module that makes the daemon which imports it 300 MB large. In small pages: huge pages would hide what it
costs to copy the address space of a large process."""

import mmap
from typing import Any

SIZE = 300_000_000

held = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
if hasattr(mmap, "MADV_NOHUGEPAGE"):
    held.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, SIZE, mmap.PAGESIZE):
    held[at] = 1


def size(ctx: Any, payload: dict[str, Any]) -> int:
    return len(held)
