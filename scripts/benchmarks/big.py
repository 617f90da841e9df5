"""A handler module that makes the daemon which imports it a big one, as one with many caches would be. In small pages:
a copy of the address space is to cost what it does then, and huge pages would hide it."""

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
