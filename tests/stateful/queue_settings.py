"""What is set for each queue, beside `reference`: by the config, and over it by what was stored."""

from dataclasses import dataclass, field
from typing import Any

from semantica_daemon.errors import QueueInUse, QueueNotFound
from semantica_daemon.wire.queue import DeleteQueueResult, QueueSettings

Settings = dict[str, int]
UNLIMITED = 100_000


@dataclass
class Queues:
    """`used`: had a job since it was deleted, if it ever was. `paused`: until that moment of the time that has passed,
    or without an end; "*" is every queue."""

    all_slots: int
    configured: dict[str, Settings]
    stored: dict[str, Settings] = field(default_factory=dict)
    stored_slots: int | None = None
    used: set[str] = field(default_factory=set)
    paused: dict[str, int | None] = field(default_factory=dict)

    @property
    def max_slots(self) -> int:
        return self.all_slots if self.stored_slots is None else self.stored_slots

    @property
    def names(self) -> set[str]:
        return {"default", *self.configured, *self.stored, *self.used}

    def slots(self, queue: str) -> int:
        return self._setting(queue, "slots", self.max_slots)

    def max_queued(self, queue: str) -> int:
        return self._setting(queue, "max_queued", UNLIMITED)

    def _setting(self, queue: str, name: str, otherwise: int) -> int:
        return self.stored.get(queue, {}).get(name, self.configured.get(queue, {}).get(name, otherwise))

    def may_start(self, queue: str) -> bool:
        return not {queue, "*"} & self.paused.keys()

    # What is asked

    def configure(self, queue: str, given: Settings, told: Any) -> None:
        self.stored.setdefault(queue, {}).update(given)
        assert isinstance(told, QueueSettings), told
        assert (told.queue, told.slots, told.max_queued) == (queue, self.slots(queue), self.max_queued(queue))

    def configure_all(self, slots: int, told: Any) -> None:
        self.stored_slots = slots or None
        assert told == QueueSettings(None, self.max_slots, None, None)

    def pause(self, queue: str, until: int | None) -> None:
        self.paused[queue] = until
        if queue != "*":
            self.stored.setdefault(queue, {})

    def delete(self, queue: str, live: int, is_named: bool, told: Any) -> None:
        """`is_named`: by a template."""
        if queue not in self.names and not is_named:
            assert isinstance(told, QueueNotFound), told
        elif live:
            assert isinstance(told, QueueInUse), told
        else:
            self.used.discard(queue)
            self.stored.pop(queue, None)
            self.paused.pop(queue, None)
            assert told == DeleteQueueResult(queue, queue in self.names)
