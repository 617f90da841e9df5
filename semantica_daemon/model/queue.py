"""The rules of a queue: the configured defaults, overridden by what `queue.configure` stored."""

from typing import Literal

import msgspec
from msgspec import Struct

MOST_SLOTS = 1024  # of all queues together


class QueueRules(Struct, frozen=True, forbid_unknown_fields=True):
    """None: as in `[queues.default]`; slots default to the daemon's max_slots."""

    slots: int | None = None
    on_running: Literal["finish", "cancel"] | None = None
    max_queued: int | None = None


class Limits(Struct):
    """The global limit, and the rules of every queue in the config. One object for all parts: a reload changes it, and
    `queue.configure` without a queue."""

    max_slots: int
    default: QueueRules
    named: dict[str, QueueRules]
    configured_slots: int
    default_is_max: bool  # the config gives no slots for [queues.default]

    def become(self, other: "Limits") -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(other, name))

    def use_stored(self, slots: int | None) -> None:
        """Puts the stored global limit into force; None: that of the config."""
        self.max_slots = self.configured_slots if slots is None else slots
        if self.default_is_max:
            self.default = msgspec.structs.replace(self.default, slots=self.max_slots)

    def of(self, queue: str, durable: QueueRules | None) -> QueueRules:
        """The rules in force: stored ones win over the config, the config over the defaults."""
        rules = self.default
        for layer in (self.named.get(queue), durable):
            if layer is not None:
                given = {key: value for key, value in msgspec.structs.asdict(layer).items() if value is not None}
                rules = msgspec.structs.replace(rules, **given)
        return rules


def limits(max_slots: int, queues: dict[str, QueueRules]) -> Limits:
    """Fills up `default`, so that the rules in force are never None."""
    given = queues.get("default", QueueRules())
    default = QueueRules(
        slots=max_slots if given.slots is None else given.slots,
        on_running=given.on_running or "finish",
        max_queued=100_000 if given.max_queued is None else given.max_queued,
    )
    named = {name: rules for name, rules in queues.items() if name != "default"}
    return Limits(max_slots, default, named, max_slots, given.slots is None)
