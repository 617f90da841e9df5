"""Callers that are attached to a job: they follow it from its first output on, and may send its stdin
or give it a terminal. An attachment ends with its connection; then the stdin ends too.

The caller opens it before it enqueues the job, so that it exists before the job can start.
"""

import asyncio
from collections.abc import Callable
from secrets import token_hex

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.event import ENDS
from semantica_daemon.store.database import CommitResult
from semantica_daemon.supervisor.messages import Window

SendInput = Callable[[bytes, bool, Window | None], None]  # the data, whether it is the last, the size of the terminal


class Attachment:
    """`window`: rows and columns of the terminal that its job gets."""

    def __init__(self, has_input: bool, window: Window | None) -> None:
        self.attach_id = token_hex(8)
        self.has_input = has_input  # until the stdin has ended
        self.window = window
        self._send_input: SendInput | None = None
        self.job_id: str | None = None  # from the commit that adds its job
        self.is_used = False  # a call of job.enqueue has named it
        self._started_or_ended = asyncio.Event()
        self._taken: asyncio.Future[bool] | None = None
        self._one_at_a_time = asyncio.Lock()

    def run_started(self, send_input: SendInput, reads_input: bool) -> None:
        self._send_input = send_input
        self._started_or_ended.set()
        if reads_input and not self.has_input:
            send_input(b"", True, None)
        if self.window is not None:
            send_input(b"", False, self.window)

    def resize(self, window: Window) -> None:
        if self.window is not None:
            self.window = window
            if self._send_input is not None:
                self._send_input(b"", False, window)

    def input_taken(self, is_open: bool) -> None:
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(is_open)

    def end_input(self) -> None:
        """The run or the job has ended, or has another stdin. Another attempt gets an empty one, because this one may
        have read a part of it."""
        self.has_input = False
        self._started_or_ended.set()
        self.input_taken(False)

    async def write(self, data: bytes, is_last: bool) -> bool:
        """Waits until the job runs and has room for the data in its stdin. False when it takes no more, or ends
        without a run."""
        async with self._one_at_a_time:
            await self._started_or_ended.wait()
            if self._send_input is None or not self.has_input:
                return False
            self.has_input = not is_last
            self._taken = asyncio.get_running_loop().create_future()
            self._send_input(data, is_last, None)
            return await self._taken and not is_last

    def end(self) -> None:
        """A run that reads from here gets the end of its stdin after what was sent before."""
        self._started_or_ended.set()
        if self.has_input:
            self.has_input = False
            if self._send_input is not None:
                self._send_input(b"", True, None)


class Attachments:
    def __init__(self) -> None:
        self._open: dict[str, Attachment] = {}
        self._by_job: dict[str, Attachment] = {}

    def open(self, has_input: bool, window: Window | None) -> Attachment:
        attachment = Attachment(has_input, window)
        self._open[attachment.attach_id] = attachment
        return attachment

    def find(self, attach_id: str) -> Attachment | None:
        """None if the caller is gone, or belonged to an earlier daemon."""
        return self._open.get(attach_id)

    def use(self, attach_id: str) -> None:
        """Raises InvalidParams if a job was enqueued with it before: it could follow and feed only one of the two."""
        attachment = self._open.get(attach_id)
        if attachment is None:
            return
        if attachment.is_used:
            problem = "this attachment was used for another job.enqueue"
            raise InvalidParams(problem, "attach again: each job needs an attachment of its own", path="$.attach_id")
        attachment.is_used = True

    def free(self, attach_id: str) -> None:
        """The call that named it was refused and may be made again."""
        attachment = self._open.get(attach_id)
        if attachment is not None:
            attachment.is_used = False

    def committed(self, committed: CommitResult) -> None:
        """Ends the input of jobs that have ended, perhaps without a run."""
        for attach_id, job_id in committed.attached:
            if (attachment := self._open.get(attach_id)) is None:
                continue
            if job_id is None:  # it joined a job that has a caller of its own
                attachment.end_input()
            else:
                attachment.job_id = job_id
                self._by_job[job_id] = attachment
        for stored in committed.events if self._by_job else ():
            if stored.event.event_type in ENDS and (ended := self._by_job.pop(stored.event.job_id or "", None)):
                ended.end_input()

    def close(self, attachment: Attachment) -> None:
        del self._open[attachment.attach_id]
        self._by_job.pop(attachment.job_id or "", None)
        attachment.end()
