"""The rules of a queue: the configured defaults, overridden by what `queue.configure` stored."""

from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec
from msgspec import Struct

from semantica_daemon.wire.queue import KeyRule, Keys, Rate

MOST_SLOTS = 1024  # of all queues together


class QueueRules(Struct, frozen=True, forbid_unknown_fields=True):
    """None: as in `[queues.default]`; slots default to the daemon's max_slots. `keys`: by pattern of the key."""

    slots: int | None = None
    on_running: Literal["finish", "cancel"] | None = None
    max_queued: int | None = None
    rate: Rate | None = None
    keys: Keys | None = None


ONE_AT_A_TIME = KeyRule()


def stored_rules(slots: int | None, on_running: Any, max_queued: int | None, rate: Any, keys: Any) -> QueueRules:
    """The rules in a row of the table `queues`, whose last two columns are JSON."""
    of_queue = None if rate is None else msgspec.json.decode(rate, type=Rate)
    of_keys = None if keys is None else msgspec.json.decode(keys, type=Keys)
    return QueueRules(slots, on_running, max_queued, of_queue, of_keys)


def key_rules(keys: Keys | None) -> dict[str, KeyRule]:
    """By pattern, the most specific first: the longest, of those of one length the one with fewer wildcards."""
    rules = {pattern: _key_rule(rule) for pattern, rule in (keys or {}).items() if rule is not None}
    return {pattern: rules[pattern] for pattern in sorted(rules, key=_specificity)}


def _specificity(pattern: str) -> tuple[int, int, str]:
    return -len(pattern), sum(map(pattern.count, "*?[")), pattern


def _key_rule(given: int | KeyRule) -> KeyRule:
    if isinstance(given, int):
        return KeyRule(given)
    return given if given.rate is None or given.rate.count else KeyRule(given.limit)


def key_rule(keys: dict[str, KeyRule], concurrency_key: str) -> KeyRule:
    """The rule of the first pattern that matches the key. Without one, jobs with the key run one at a time."""
    return next((rule for pattern, rule in keys.items() if fnmatchcase(concurrency_key, pattern)), ONE_AT_A_TIME)


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
                if layer.keys is not None:
                    given["keys"] = (rules.keys or {}) | layer.keys
                rules = msgspec.structs.replace(rules, **given)
        if rules.rate is not None and not rules.rate.count:
            rules = msgspec.structs.replace(rules, rate=None)
        return rules

    @property
    def has_rates(self) -> bool:
        """Whether the config sets a rate for any queue or key."""
        return any(has_rate(rules) for rules in (self.default, *self.named.values()))


def has_rate(rules: QueueRules) -> bool:
    return rules.rate is not None or any(rule.rate is not None for rule in key_rules(rules.keys).values())


def limits(max_slots: int, queues: dict[str, QueueRules]) -> Limits:
    """Fills up `default`, so that the rules in force are never None."""
    given = queues.get("default", QueueRules())
    default = QueueRules(
        slots=max_slots if given.slots is None else given.slots,
        on_running=given.on_running or "finish",
        max_queued=100_000 if given.max_queued is None else given.max_queued,
        rate=given.rate,
        keys=given.keys,
    )
    named = {name: rules for name, rules in queues.items() if name != "default"}
    return Limits(max_slots, default, named, max_slots, given.slots is None)
