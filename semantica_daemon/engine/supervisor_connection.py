"""The daemon's end of the socket to one supervisor: sends requests, and sorts its reports into an inbox per run."""

import asyncio
import subprocess
from collections import deque
from collections.abc import Callable

import structlog

from semantica_daemon import forks
from semantica_daemon.clock import Clock, Timer
from semantica_daemon.supervisor.messages import (
    Decoder,
    Exited,
    InputRequest,
    InputTaken,
    LeftoversFound,
    LogGrew,
    ReadRequest,
    Request,
    SignalRequest,
    Spawned,
    SpawnFailed,
    SpawnRequest,
    WatchLogRequest,
    encode,
)

log = structlog.get_logger()

ANSWER_WITHIN_MS = 5000
ANY_SIZE = -1
READ_BYTES = 65_536  # as a buffer of its own: asyncio's usual one costs a memory mapping for every read


class SupervisorLost:
    """The supervisor has ended, so no further report about the run will come."""


RunReport = Spawned | SpawnFailed | LeftoversFound | InputTaken | Exited | SupervisorLost


class Inbox:
    """The reports about one run, in order, taken by the run alone. An asyncio.Queue, which serves any number of takers,
    would cost as much as the handling of a report."""

    def __init__(self) -> None:
        self._reports: deque[RunReport] = deque()
        self._arrival: asyncio.Future[None] | None = None

    def put(self, report: RunReport) -> None:
        self._reports.append(report)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    async def get(self) -> RunReport:
        if not self._reports:
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        return self._reports.popleft()


class SupervisorConnection(asyncio.BufferedProtocol):
    def __init__(
        self, handle: int, process: "subprocess.Popen[bytes]", clock: Clock, log_grew: Callable[[str], None]
    ) -> None:
        """`log_grew` is called with the id of a job whose log is longer than a reader asked for."""
        self._handle = handle
        self._process = process
        self._clock = clock
        self._log_grew = log_grew
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(READ_BYTES)
        self._decoder = Decoder()
        self._inboxes: dict[str, Inbox] = {}
        self._kill_timer: Timer | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def spawn(self, request: SpawnRequest) -> Inbox:
        inbox = self._inboxes[request.run_id] = Inbox()
        if not self._send(request):
            inbox.put(SupervisorLost())
        return inbox

    def signal(self, run_id: str, number: int) -> None:
        self._send(SignalRequest(run_id, int(number)))  # marshal takes no enum

    def watch_log(self, run_id: str, job_id: str, size: int) -> None:
        """Calls `log_grew` once, as soon as the log is longer than `size`."""
        self._send(WatchLogRequest(run_id, job_id, size))

    def note_reader(self, run_id: str, reader: int, offset: int) -> None:
        """See ReadRequest."""
        self._send(ReadRequest(run_id, reader, offset))

    def send_input(self, request: InputRequest) -> None:
        self._send(request)

    def check_alive(self, run_id: str, job_id: str) -> None:
        """Kills the supervisor if it reports nothing for 5 s: a working supervisor answers this request at once, and
        one that is stopped or stuck blocks all its runs."""
        if self._kill_timer is None:
            self._kill_timer = self._clock.after(ANSWER_WITHIN_MS, self._kill)
            self.watch_log(run_id, job_id, ANY_SIZE)

    def forget(self, run_id: str) -> None:
        self._inboxes.pop(run_id, None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._kill_timer is not None:
            self._kill_timer.cancel()
            self._kill_timer = None
        for report in self._decoder.feed(self._buffer[:nbytes]):
            if isinstance(report, LogGrew):
                self._log_grew(report.job_id)
            elif (inbox := self._inboxes.get(report.run_id)) is not None:
                inbox.put(report)

    def connection_lost(self, error: Exception | None) -> None:
        if self._inboxes:
            log.error("supervisor_lost", pid=self._process.pid, runs=len(self._inboxes))
        for inbox in self._inboxes.values():
            inbox.put(SupervisorLost())
        forks.forget(self._handle)

    def _send(self, request: Request) -> bool:
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(encode(request))
        return True

    def _kill(self) -> None:
        log.error("supervisor_does_not_answer", pid=self._process.pid)
        self._process.kill()
