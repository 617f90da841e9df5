"""Runs whose output is not read for the moment, because a reader of the log is behind: their processes wait when the
pipe is full. A reader that makes no progress for 10 s is not waited for any longer.
"""

import select
import time

from semantica_daemon.supervisor.messages import ReadRequest
from semantica_daemon.supervisor.run import Run

LONGEST_S = 10


class Pauses:
    def __init__(self, poll: "select.poll") -> None:
        """`poll`: where the pipes of the runs are registered. `until`: when each pause ends at the latest."""
        self._poll = poll
        self.until: dict[Run, float] = {}

    def begin(self, run: Run) -> None:
        if run not in self.until:
            for pipe in run.pipes:
                self._poll.unregister(pipe)
            self.until[run] = time.monotonic() + LONGEST_S

    def end(self, run: Run) -> None:
        if self.until.pop(run, None) is not None:
            for pipe in run.pipes:
                self._poll.register(pipe, select.POLLIN)

    def note_reader(self, run: Run, request: ReadRequest) -> None:
        before = run.log.unread_from
        run.note_reader(request.reader, request.offset)
        if run not in self.until:
            return
        if not run.log.must_wait:
            self.end(run)
        elif run.log.unread_from != before:
            self.until[run] = time.monotonic() + LONGEST_S

    def end_late(self, timeout_ms: int | None) -> int | None:
        """Ends the pauses that have taken too long. Returns the timeout, or less if the next pause ends sooner."""
        now = time.monotonic()
        for run in [run for run, until in self.until.items() if until <= now]:
            run.forget_readers()
            self.end(run)
        left = [int((until - now) * 1000) + 1 for until in self.until.values()]
        return min(left + ([] if timeout_ms is None else [timeout_ms]), default=None)
