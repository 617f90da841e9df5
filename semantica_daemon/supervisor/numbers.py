"""A number for each run, borne by all its processes: a few bytes less of a limit that hardly anybody uses (message
queues). It is inherited like the environment, but nobody sheds it in passing; /proc shows it of every process."""

import resource
from collections.abc import Collection

LIMIT = getattr(resource, "RLIMIT_MSGQUEUE", None)
MOST = 4095
LEAST_LIMIT = 65_536
UNLIMITED = 1 << 30  # taken in place of no limit at all
TITLE = b"Max msgqueue size"


class Numbers:
    def __init__(self) -> None:
        soft, self._hard = resource.getrlimit(LIMIT) if LIMIT is not None else (0, 0)
        self._whole = UNLIMITED if soft == resource.RLIM_INFINITY else soft
        self._last = 0

    def next(self, taken: Collection[int]) -> int:
        """0 when there is none to be had."""
        if self._whole < LEAST_LIMIT or len(taken) >= MOST:
            return 0
        self._last = self._last % MOST + 1
        while self._last in taken:
            self._last = self._last % MOST + 1
        return self._last

    def bear(self, number: int) -> None:
        """What is started from now on does; 0 is nobody's."""
        if LIMIT is not None and self._whole >= LEAST_LIMIT:
            resource.setrlimit(LIMIT, (self._whole - number, self._hard))

    def of(self, pid: int) -> int:
        try:
            with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:
                text = file.read()
        except OSError:
            return 0
        soft = text.partition(TITLE)[2].split(maxsplit=1)[:1]
        number = self._whole - int(soft[0]) if soft and soft[0].isdigit() else 0
        return number if 0 < number <= MOST else 0
