"""Adds one job for each item of a map, a thousand in a call and several calls in flight.

Each job has an idempotency key made of the map and its item, so a call may be repeated, by this command or another.
"""

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from semantica_daemon.cli.job_numbers import JobNumbers
from semantica_daemon.cli.map_items import Items, Texts
from semantica_daemon.cli.map_record import item_key, with_turn
from semantica_daemon.cli.replacement import Template
from semantica_daemon.client.errors import CallRefused
from semantica_daemon.client.json_types import Json
from semantica_daemon.client.pipeline import Pipeline

MOST_IN_CALL = 1000
LARGEST_CALL = 4_000_000  # bytes of items; each may be in its call several times
MOST_CALLS = 3  # in flight
TRY_AGAIN_S = 0.5  # when the queue is full
LONGEST_SUBJECT = 512
EMPTY = " "  # the subject of the empty item

Batch = list[tuple[int, int]]  # the number of each item, and the turn in which it is run
OnAck = Callable[[int, int, Json], None]


class MapIntake:
    def __init__(self, pipeline: Pipeline, items: Items, template: Template, spec: Json, duplicates: bool) -> None:
        """`spec`: the fields of all jobs, with the label as chain_group_id. `duplicates`: an item that is given twice
        is run twice."""
        self.texts = Texts()
        self.numbers = JobNumbers()
        self.room: Callable[[], int] | None = None  # how many more items may be added now; None: any number
        self._pipeline = pipeline
        self._items = items
        self._template = template
        self._spec = {name: value for name, value in spec.items() if name != "environment"}
        self._shared = {"environment": spec["environment"]} if "environment" in spec else {}
        self._duplicates = duplicates
        self._again: deque[tuple[int, int]] = deque()
        self._repeated: dict[int, tuple[str, str]] = {}  # key and payload (JSON) of items that are run as they were
        self._most = MOST_IN_CALL
        self._calls = 0
        self._full_until = 0.0
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        """Every item that will be added was added."""
        return self._calls == 0 and (self._is_stopped or (self._items.is_exhausted and not self._again))

    @property
    def all_were_taken(self) -> bool:
        return self._items.is_exhausted and self._calls == 0 and not self._again

    @property
    def descriptor(self) -> list[int]:
        """What to wait for before `read`, if more items are wanted."""
        wants_more = not self._is_stopped and self._items.waiting < MOST_IN_CALL and self._items.descriptor >= 0
        return [self._items.descriptor] if wants_more else []

    def read(self) -> None:
        self._items.read()

    def stop(self) -> None:
        """Adds no further item."""
        self._is_stopped = True

    def run_again(self, number: int, turn: int) -> None:
        self._again.append((number, turn))

    def repeat(self, number: int, turn: int, key: str, payload: Json) -> None:
        """Runs an item again that an earlier command has added."""
        self._repeated[number] = key, json.dumps(payload)
        self._again.append((number, turn))

    def send(self, on_ack: OnAck, may_wait: bool) -> None:
        """Adds items as far as calls may be in flight. `may_wait`: more can be read, so a call is filled first."""
        most = MOST_CALLS if self.room is None else 1
        while self._calls < most and not self._is_stopped and time.monotonic() >= self._full_until:
            if may_wait and not self._again and self._items.waiting < MOST_IN_CALL:
                return
            batch = self._next_batch()
            if not batch:
                return
            self._calls += 1
            params = {"jobs": [self._job(number, turn) for number, turn in batch], **self._shared}
            acked, refused = partial(self._acked, batch, on_ack), partial(self._refused, batch)
            self._pipeline.send("job.enqueue_many", params, acked, refused)

    def _next_batch(self) -> Batch:
        batch: Batch = []
        size = 0
        most = self._most if self.room is None else min(self._most, self.room())
        while self._again and len(batch) < most and size < LARGEST_CALL:
            batch.append(self._again.popleft())
            size += self.texts.size(batch[-1][0])
        while self._items.waiting and len(batch) < most and size < LARGEST_CALL:
            batch.append((self.texts.append(self._items.take()), 1))
            size += self.texts.size(batch[-1][0])
        return batch

    def _job(self, number: int, turn: int) -> Json:
        item = self.texts[number]
        if number in self._repeated:
            key, text = self._repeated[number]
            payload = json.loads(text)
        else:
            key = item_key(self._spec["chain_group_id"], f"{number}\0{item}" if self._duplicates else item)
            payload = {**self._spec["payload"], "argv": self._template.argv(item, number)}
        about = {"subject_key": subject_of(item), "generation": number}
        return {**self._spec, **about, "payload": payload, "idempotency_key": with_turn(key, turn)}

    def _acked(self, batch: Batch, on_ack: OnAck, reply: Json) -> None:
        self._calls -= 1
        self._most = min(MOST_IN_CALL, 2 * self._most)
        for (number, turn), ack in zip(batch, reply["jobs"], strict=True):
            on_ack(number, turn, ack)

    def _refused(self, batch: Batch, refused: CallRefused) -> None:
        """A full queue has room later, perhaps for fewer jobs at once."""
        if refused.data.get("code") != "E_QUEUE_FULL":
            raise refused
        self._calls -= 1
        self._again.extendleft(reversed(batch))
        self._most = max(1, len(batch) // 2)
        self._full_until = time.monotonic() + TRY_AGAIN_S


def subject_of(item: str) -> str:
    """The item as the subject of its job; a long one is cut and ends with a hash, the empty one is a space."""
    if len(item) <= LONGEST_SUBJECT:
        return item or EMPTY
    return f"{item[: LONGEST_SUBJECT - 17]}#{hashlib.sha256(item.encode()).hexdigest()[:16]}"
