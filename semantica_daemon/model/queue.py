"""The rules of a queue: the configured defaults, overridden by what `queue.configure` stored."""

from typing import Literal

import msgspec
from msgspec import Struct


class QueueRules(Struct, frozen=True, forbid_unknown_fields=True):
    """None: as in `[queues.default]`; slots default to the daemon's max_slots."""

    slots: int | None = None
    on_running: Literal["finish", "cancel"] | None = None
    max_queued: int | None = None


class Limits(Struct):
    """The global limit, and the rules of every queue in the config. One object for all parts: a reload changes it."""

    max_slots: int
    default: QueueRules
    named: dict[str, QueueRules]

    def become(self, other: "Limits") -> None:
        self.max_slots, self.default, self.named = other.max_slots, other.default, other.named

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
    return Limits(max_slots, default, {name: rules for name, rules in queues.items() if name != "default"})
