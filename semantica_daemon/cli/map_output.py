"""The output of the jobs of a map: each job's as a whole when it has ended, in the order of their ends or of the items.

The output is read by job.logs, that of the next jobs in advance; nothing is read that is not printed soon.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from semantica_daemon.cli.follow import DESCRIPTORS, write_all
from semantica_daemon.client import output
from semantica_daemon.client.errors import CallRefused
from semantica_daemon.client.json_types import Json
from semantica_daemon.client.pipeline import Pipeline

IN_ADVANCE = 16
FIRST_CHUNK = 65_536
CHUNK = 1_048_576
NO_OUTPUT: Json = {"chunk": "", "encoding": "utf-8", "streams": [], "eof": True}

Writer = Callable[[str, bytes], None]


class EndedJob:
    """`replies`: those of job.logs that are not printed yet; `is_read`: the last one is among them or was printed."""

    def __init__(self, number: int, job_id: str, state: str) -> None:
        self.number = number
        self.job_id = job_id
        self.state = state
        self.replies: deque[Json] = deque()
        self.offset = 0
        self.is_asked = False
        self.is_read = False


class MapOutput:
    def __init__(
        self,
        pipeline: Pipeline,
        open_writer: Callable[[EndedJob], Writer],
        on_shown: Callable[[EndedJob, Json], None],
        keep_order: bool,
    ) -> None:
        """`open_writer`: what a job's output is written with. `on_shown` gets the last reply of job.logs."""
        self._pipeline = pipeline
        self._open_writer = open_writer
        self._on_shown = on_shown
        self._keep_order = keep_order
        self._next_number = 1
        self._early: dict[int, EndedJob | None] = {}  # of later items than the next one, with keep_order
        self._queue: deque[EndedJob] = deque()
        self._writer: Writer | None = None  # of the first job in the queue, when a part of its output is written

    @property
    def is_idle(self) -> bool:
        return not self._queue and not any(self._early.values())

    def add(self, job: EndedJob, may_have_output: bool) -> None:
        if not may_have_output:
            job.is_asked = job.is_read = True
            job.replies.append({**NO_OUTPUT, "state": job.state, "exit_code": None, "error": None})
        if not self._keep_order or job.number < self._next_number:
            self._queue.append(job)
        else:
            self._early[job.number] = job
            self._advance()

    def skip(self, number: int) -> None:
        """There will be no output of this item."""
        if self._keep_order and number >= self._next_number:
            self._early[number] = None
            self._advance()

    def _advance(self) -> None:
        while self._next_number in self._early:
            job = self._early.pop(self._next_number)
            self._next_number += 1
            if job is not None:
                self._queue.append(job)

    def pump(self) -> None:
        """Prints what has come, and asks for what comes next."""
        while self._queue and self._print_first():
            self._queue.popleft()
        for place in range(min(IN_ADVANCE, len(self._queue))):
            job = self._queue[place]
            if not job.is_asked and not job.is_read and (place == 0 or not job.replies):
                self._ask(job)

    def _print_first(self) -> bool:
        """Whether the first job is printed to its end."""
        job = self._queue[0]
        while job.replies:
            reply = job.replies.popleft()
            if reply["chunk"]:
                self._writer = self._writer or self._open_writer(job)
                for stream, data in output.pieces(reply):
                    self._writer(stream, data)
            if job.is_read and not job.replies:
                if self._writer is None:
                    self._open_writer(job)
                self._writer = None
                self._on_shown(job, reply)
                return True
        return False

    def _ask(self, job: EndedJob) -> None:
        job.is_asked = True
        limit = CHUNK if job.offset else FIRST_CHUNK
        params = {"job_id": job.job_id, "offset": job.offset, "limit": limit}
        self._pipeline.send("job.logs", params, partial(_received, job), partial(_lost, job))


def _received(job: EndedJob, reply: Json) -> None:
    job.replies.append(reply)
    job.offset, job.is_asked = reply["next_offset"], False
    job.is_read = reply["eof"] or not reply["chunk"]


def _lost(job: EndedJob, refused: CallRefused) -> None:
    """Retention has removed the job meanwhile; anything else is an error."""
    if refused.data.get("code") != "E_JOB_NOT_FOUND":
        raise refused
    job.is_read = True
    job.replies.append({**NO_OUTPUT, "state": job.state, "exit_code": None, "error": None})


def to_streams(stream: str, data: bytes) -> None:
    write_all(DESCRIPTORS[stream], data)


class TaggedWriter:
    """Puts the item and a tab before each line."""

    def __init__(self, item: str) -> None:
        self._tag = item.encode() + b"\t"
        self._is_inside: dict[str, bool] = {}  # a line, by stream

    def __call__(self, stream: str, data: bytes) -> None:
        text = data.replace(b"\n", b"\n" + self._tag)
        if data.endswith(b"\n"):
            text = text[: -len(self._tag)]
        if not self._is_inside.get(stream):
            text = self._tag + text
        self._is_inside[stream] = not data.endswith(b"\n")
        to_streams(stream, text)
