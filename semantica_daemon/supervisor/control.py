"""The supervisor's end of the socket to the daemon: one JSON document a line, both ways."""

import json
import os
import time
from contextlib import suppress
from typing import Any

AT_ONCE = 65_536  # more would cost a mapping of memory for each order
HELD_BACK_S = 0.002


class Control:
    """What is said goes out together (`flush`). A start may wait for a moment, because the end often follows at once,
    and each telling wakes the daemon."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self._unread: list[bytes] = []
        self._told: list[bytes] = []
        self._by: float | None = None  # when what is held back must have been told

    def orders(self) -> list[dict[str, Any]] | None:
        """What has come; None when the daemon is gone, in whatever way."""
        try:
            received = os.read(self.handle, AT_ONCE)
        except OSError:
            received = b""
        if not received:
            return None
        *lines, rest = received.split(b"\n")
        found = []
        for line in lines:
            found.append(json.loads(b"".join([*self._unread, line])))
            self._unread.clear()
        self._unread.append(rest)  # a stdin of megabytes comes in many parts, joined once
        return found

    def say(self, told: dict[str, Any], now: bool = True) -> None:
        self._told.append(json.dumps(told).encode() + b"\n")
        by = time.monotonic() + (0 if now else HELD_BACK_S)
        self._by = by if self._by is None else min(self._by, by)

    def patience_ms(self) -> int | None:
        """How long there is nothing to tell."""
        return None if self._by is None else max(0, int((self._by - time.monotonic()) * 1000) + 1)

    def flush(self) -> None:
        """A daemon that is gone is noticed where its orders come from."""
        if self._by is None or time.monotonic() < self._by:
            return
        left, self._told, self._by = b"".join(self._told), [], None
        with suppress(OSError):
            while left:
                left = left[os.write(self.handle, left) :]
