"""A queue's rules: configured defaults, overlaid by what `queue.configure` made durable."""

from typing import Literal

import msgspec
from msgspec import Struct


class QueueRules(Struct, frozen=True, forbid_unknown_fields=True):
    """None: as `[queues.default]` says; its own slots default to the daemon's max_slots."""

    slots: int | None = None
    on_running: Literal["finish", "cancel"] | None = None
    max_queued: int | None = None


class Limits(Struct, frozen=True):
    """What the claim and the planner go by: the global limit and the rules of every queue named in the config."""

    max_slots: int
    default: QueueRules
    named: dict[str, QueueRules]

    def of(self, queue: str, durable: QueueRules | None) -> QueueRules:
        """The rules in force: durable over config over default."""
        rules = self.default
        for layer in (self.named.get(queue), durable):
            if layer is not None:
                given = {key: value for key, value in msgspec.structs.asdict(layer).items() if value is not None}
                rules = msgspec.structs.replace(rules, **given)
        return rules


def limits(max_slots: int, queues: dict[str, QueueRules]) -> Limits:
    """`default` is filled up, so that the rules in force are never None."""
    given = queues.get("default", QueueRules())
    default = QueueRules(
        slots=max_slots if given.slots is None else given.slots,
        on_running=given.on_running or "finish",
        max_queued=100_000 if given.max_queued is None else given.max_queued,
    )
    return Limits(max_slots, default, {name: rules for name, rules in queues.items() if name != "default"})
