"""Writes to the stdin of runs whose caller is attached: at most one request for each run, as its process reads it."""

import os
import select

from semantica_daemon.supervisor.channel import Channel
from semantica_daemon.supervisor.messages import InputRequest, InputTaken
from semantica_daemon.supervisor.run import END_OF_KEYS, END_OF_TYPING, Run


class Inputs:
    def __init__(self, poll: "select.poll", channel: Channel) -> None:
        self._poll = poll
        self._channel = channel
        self._pending: dict[int, tuple[Run, InputRequest]] = {}  # by the descriptor that is written to

    def __contains__(self, handle: int) -> bool:
        return handle in self._pending

    def request(self, run: Run | None, request: InputRequest) -> None:
        if request.window is not None:
            if run is not None:
                run.resize(request.window)
            return
        if run is None or run.stdin < 0:
            self._channel.send(InputTaken(request.run_id, False))
            return
        if run.stdin in self._pending:  # the caller is gone: the end comes after what is pending
            request = request._replace(data=self._pending[run.stdin][1].data + request.data)
        if request.is_last and run.request.window is not None:
            request = request._replace(data=request.data + END_OF_TYPING)
        self._pending[run.stdin] = (run, request)
        self._poll.register(run.stdin, select.POLLOUT)
        self.write(run.stdin)

    def write(self, handle: int) -> None:
        """Writes what the pipe takes. A process that has closed its stdin takes nothing more."""
        run, request = self._pending[handle]
        try:
            written = os.write(handle, request.data) if request.data else 0
        except BlockingIOError:
            return
        except OSError:
            request = request._replace(data=b"", is_last=True)
            written = 0
        request = request._replace(data=request.data[written:])
        if request.is_last and not request.data and run.leave_raw_mode():
            request = request._replace(data=END_OF_KEYS)
        self._pending[handle] = (run, request)
        if not request.data:
            self._end(run, not request.is_last)

    def close(self, run: Run) -> None:
        """The run is over."""
        if run.stdin in self._pending:
            self._end(run, False)
        run.close_stdin()

    def _end(self, run: Run, is_open: bool) -> None:
        del self._pending[run.stdin]
        self._poll.unregister(run.stdin)
        if not is_open:
            run.close_stdin()
        self._channel.send(InputTaken(run.run_id, is_open))
