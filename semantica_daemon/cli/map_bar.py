"""The progress of a map on the last line of a terminal: how many items have ended, how fast, and when it will be done.
It is erased before anything else is written."""

import os
import sys
import time
from collections import deque

from semantica_daemon import prose

ERASE = "\r\x1b[K"
EVERY_S = 0.1
WINDOW_S = 20.0  # over which the rate is measured
SAMPLE_EVERY_S = 0.5
WIDTH = 24


class MapBar:
    """Nothing is drawn unless `is_wanted`."""

    def __init__(self, is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        self.is_at_start = True  # whether the cursor is at the beginning of a line
        self._is_drawn = False
        self._drawn_at = 0.0
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, ended: int, total: int, failed: int, is_complete: bool) -> None:
        """Draws the line if it is time to. `is_complete`: no items will be added to the total."""
        now = time.monotonic()
        if not self.is_wanted or not self.is_at_start or now - self._drawn_at < EVERY_S:
            return
        self._sample(now, ended)
        self._drawn_at = now
        text = line(ended, total, failed, is_complete, self._rate(now, ended))
        self._write(ERASE + text[: _columns() - 1])
        self._is_drawn = True

    def erase(self) -> None:
        if self._is_drawn:
            self._write(ERASE)
            self._is_drawn = False
            self._drawn_at = 0.0

    def _sample(self, now: float, ended: int) -> None:
        if not self._samples or now - self._samples[-1][0] >= SAMPLE_EVERY_S:
            self._samples.append((now, ended))
        while now - self._samples[0][0] > WINDOW_S and len(self._samples) > 2:
            self._samples.popleft()

    def _rate(self, now: float, ended: int) -> float:
        """Items a second."""
        began, before = self._samples[0]
        return (ended - before) / (now - began) if now > began else 0.0

    def _write(self, text: str) -> None:
        """Ignores errors: a closed terminal must not end the command."""
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            self.is_wanted = False


def line(ended: int, total: int, failed: int, is_complete: bool, rate: float) -> str:
    full = round(WIDTH * ended / max(1, total))
    of = f"{ended:,}/{total:,}{'' if is_complete else '+'}"
    parts = [f"{'━' * full}{'╌' * (WIDTH - full)} {100 * ended // max(1, total):>3}%", of]
    if rate > 0:
        parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        if is_complete and ended < total:
            parts.append(f"ETA {prose.duration(round((total - ended) / rate) * 1000)}")
    if failed:
        parts.append(f"{failed:,} failed")
    return "  ".join(parts)


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
