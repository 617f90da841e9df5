"""Follows a map to its end: adds its items, counts and prints the jobs that end, and halts when it is asked to."""

import time
from collections.abc import Callable

from semantica_daemon.cli import outcome
from semantica_daemon.cli.halt import Halt, failed_code
from semantica_daemon.cli.interrupts import Detached
from semantica_daemon.cli.map_intake import MapIntake
from semantica_daemon.cli.map_output import EndedJob, MapOutput
from semantica_daemon.cli.map_record import MapRecord
from semantica_daemon.cli.map_view import MapView
from semantica_daemon.client.client import END_EVENTS, ENDED_STATES
from semantica_daemon.client.json_types import Json
from semantica_daemon.client.pipeline import Pipeline
from semantica_daemon.client.results import Event

KEEP_EVERY_S = 1.0
WAIT_S = 1.0
DRAW_S = 0.1
PAGE = 200
STATE_OF = dict(zip(END_EVENTS, ENDED_STATES, strict=True))


class MapRun:
    """`is_resumed`: jobs of the map may have ended before this command began. `runs_again`: the ended states whose
    items are run once more."""

    def __init__(
        self, pipeline: Pipeline, record: MapRecord, intake: MapIntake, view: MapView, halt: Halt, keep_order: bool
    ) -> None:
        self.record = record
        self.cancelled = 0
        self.done = 0
        self.failed = 0
        self.taken = 0  # items, each once
        self.duplicates = 0
        self.wants_cancel = False
        self.wants_detach = False
        self.is_printing = False  # when a signal must not interrupt it, or a job's output would be printed again
        self.is_resumed = False
        self.runs_again: tuple[str, ...] = ()
        self.look_up: Callable[[str], None] | None = None  # called with the id of a job that this command has not added
        self.unknown: dict[str, Event] = {}  # ends of jobs that this command does not know yet
        self._pipeline = pipeline
        self._intake = intake
        self._view = view
        self.halt = halt
        self._output = MapOutput(pipeline, view.open_writer, self._shown, keep_order)
        self._is_ended = bytearray(1)  # by number
        self._unshown: dict[str, int] = {}  # the sequence of each end that is not shown yet, the first one first
        self._seen = 0
        self._earlier_done = 0  # before this command began
        self._earlier_failed = 0
        self._is_halted = False
        self._is_cancelling = False
        self._must_resync = False
        self._first_failed_code = 0
        self._kept_at = 0.0

    @property
    def left(self) -> int:
        """Items that were added and have not ended."""
        return self.taken - self.done - self.failed - self.cancelled

    @property
    def all_were_taken(self) -> bool:
        return self._intake.all_were_taken

    @property
    def cursor(self) -> int:
        """The ends up to this sequence are shown."""
        return next(iter(self._unshown.values())) - 1 if self._unshown else self._seen

    def follow(self, keep: Callable[[], None]) -> None:
        """Until all items have ended and their output is printed; `keep` stores the record now and then."""
        ready: list[int] = []
        while True:
            self._intake.send(self._acked, may_wait=bool(ready))
            self._print()
            self._cancel_if_wanted()
            if self._is_finished():
                return
            self._draw()
            self._keep_sometimes(keep)
            ready = self._pipeline.poll(DRAW_S if self._view.bar.is_wanted else WAIT_S, self._intake.descriptor)
            if ready:
                self._intake.read()
            if self._must_resync:
                self._resync()

    def _print(self) -> None:
        self.is_printing = True
        self._output.pump()
        self.is_printing = False
        if self.wants_detach:
            raise Detached

    def _draw(self) -> None:
        total = self.taken if self._intake.is_done else max(self.taken, len(self._intake.texts))
        self._view.bar.update(self.taken - self.left, total, self.failed, self._intake.is_done)

    def summarize(self, took_s: float) -> None:
        counts = {"done": self.done, "failed": self.failed, "cancelled": self.cancelled}
        counts["given more than once"] = self.duplicates
        self._view.summarize(self.record.name, self.record.label, counts, took_s)

    def exit_code(self) -> int:
        if self._is_halted:
            return self.halt.exit_code(self._first_failed_code, self.failed, self.taken)
        return failed_code(self.failed + self.cancelled)

    def _is_finished(self) -> bool:
        is_all_ended = self._intake.is_done and not self.left and not (self.look_up and self.unknown)
        return is_all_ended and self._output.is_idle and not (self._is_cancelling or self._must_resync)

    def _keep_sometimes(self, keep: Callable[[], None]) -> None:
        if time.monotonic() - self._kept_at > KEEP_EVERY_S:
            self._kept_at = time.monotonic()
            keep()

    # What comes from the daemon

    def begin_at(self, sequence: int) -> None:
        self._seen = sequence

    def on_event(self, event: Event) -> None:
        job_id = event["job_id"] or ""
        self._seen = max(self._seen, event["sequence"])
        self._unshown[job_id] = event["sequence"]
        if number := self._intake.numbers.get(job_id):
            self._ended(number, event)
            return
        self.unknown[job_id] = event
        if self.look_up is not None:
            self.look_up(job_id)

    def on_gap(self) -> None:
        self._must_resync = True

    def adopt(self, number: int, job_id: str) -> None:
        """Follows a job of the map that an earlier command has added."""
        if not self._intake.numbers.get(job_id):
            self._intake.numbers.add(job_id, number)
            self._took(number)
        if event := self.unknown.pop(job_id, None):
            self._ended(number, event)

    def forget(self, job_id: str) -> None:
        """The end of this job is not shown."""
        self.unknown.pop(job_id, None)
        self._unshown.pop(job_id, None)

    def count_earlier(self, done: int = 0, failed: int = 0) -> None:
        """Items whose end an earlier command has shown."""
        self.taken += done + failed
        self.done += done
        self.failed += failed
        self._earlier_done += done
        self._earlier_failed += failed

    def skip(self, number: int) -> None:
        """An earlier item that is not waited for with --keep-order."""
        self._output.skip(number)

    def _acked(self, number: int, turn: int, ack: Json) -> None:
        job_id = ack["job_id"]
        if self._intake.numbers.add(job_id, number) != number:
            self.duplicates += 1
            self._output.skip(number)
            return
        is_old = self.is_resumed and ack["existing"]
        if is_old and ack["state"] in self.runs_again:
            self.forget(job_id)
            self.record.has_turns = True
            self._intake.run_again(number, turn + 1)
            return
        self._took(number)
        if event := self.unknown.pop(job_id, None):
            self._ended(number, event)
        elif is_old and ack["state"] in ENDED_STATES:
            self._is_ended[number] = 1
            self.taken -= 1
            self.count_earlier(done=ack["state"] == "DONE", failed=ack["state"] != "DONE")
            self._output.skip(number)

    def _took(self, number: int) -> None:
        self.taken += 1
        if number >= len(self._is_ended):
            self._is_ended += bytes(number + 1024 - len(self._is_ended))

    def _ended(self, number: int, event: Event) -> None:
        state = STATE_OF[event["event_type"]]
        self._count(number, state)
        self._output.add(EndedJob(number, event["job_id"] or "", state), _may_have_output(state, event["payload"]))
        total = self.taken if self._intake.is_done else None
        done, failed = self.done - self._earlier_done, self.failed - self._earlier_failed
        if not self._is_halted and self.halt.is_due(done, failed, total):
            self._is_halted = True
            self._stop({"only_waiting": True} if self.halt.when == "soon" else {}, "--halt")

    def _count(self, number: int, state: str) -> None:
        if self._is_ended[number]:
            return
        self._is_ended[number] = 1
        if state == "DONE":
            self.done += 1
        elif state == "FAILED":
            self.failed += 1
        else:
            self.cancelled += 1

    def _shown(self, job: EndedJob, reply: Json) -> None:
        self._unshown.pop(job.job_id, None)
        if job.state == "FAILED" and not self._first_failed_code:
            self._first_failed_code = outcome.exit_code(reply)
        self._view.shown(job, reply)

    # What is asked of the daemon

    def _cancel_if_wanted(self) -> None:
        if self.wants_cancel:
            self.wants_cancel = False
            self._stop({}, "interrupted")

    def _stop(self, which: Json, reason: str) -> None:
        self._intake.stop()
        self._is_cancelling = True
        params = {"chain_group_id": self.record.label, "reason": reason, **which}
        self._pipeline.send("job.cancel", params, self._stopped)

    def _stopped(self, _: Json) -> None:
        self._is_cancelling = False

    def _resync(self) -> None:
        """After events were lost: looks at every job of the map."""
        self._must_resync = False
        cursor: Json = {}
        while True:
            page = self._pipeline.call(
                "job.list", chain_group_id=self.record.label, sort="oldest", limit=PAGE, **cursor
            )
            for job in page["items"]:
                number = self._intake.numbers.get(job["job_id"])
                if number and job["state"] in ENDED_STATES and not self._is_ended[number]:
                    self._ended(number, _event_of(job, self._seen))
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}


def _may_have_output(state: str, facts: Json | None) -> bool:
    """Only the event of a command that is DONE has the size of its output."""
    return "log_bytes" in (facts or {}) if state == "DONE" else "run_id" in (facts or {})


def _event_of(job: Json, sequence: int) -> Event:
    """Stands for the end of a job, whose event is gone."""
    facts = {"run_id": "", "log_bytes": 1} if job["run_count"] else {}
    event_type = f"job.{job['state'].lower()}"
    return {
        "sequence": sequence, "job_sequence": None, "job_id": job["job_id"], "timestamp_at": job["finished_at"],
        "event_type": event_type, "level": "info", "message": "", "payload": facts,
    }  # fmt: skip
