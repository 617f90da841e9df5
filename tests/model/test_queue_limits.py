"""The rules of a queue in force: durable over config over [queues.default] over what is built in."""

from semantica_daemon.model.queue import QueueRules, key_rule, key_rules, limits
from semantica_daemon.wire.queue import KeyRule, Rate
from tests.cases import each_case

BUILT_IN = QueueRules(4, "finish", 100_000)


def test_without_any_config_a_queue_has_all_slots() -> None:
    assert limits(4, {}).of("any", None) == BUILT_IN


@each_case(
    ("default", "named", "durable", "expected"),
    [
        (None, None, None, BUILT_IN),
        (QueueRules(slots=2), None, None, QueueRules(2, "finish", 100_000)),
        (QueueRules(slots=2), QueueRules(slots=1), None, QueueRules(1, "finish", 100_000)),
        (QueueRules(slots=2), QueueRules(slots=1), QueueRules(slots=3), QueueRules(3, "finish", 100_000)),
        (None, QueueRules(on_running="cancel"), None, QueueRules(4, "cancel", 100_000)),
        (None, QueueRules(on_running="cancel"), QueueRules(on_running="finish"), BUILT_IN),
        (QueueRules(max_queued=5), QueueRules(slots=1), QueueRules(on_running="cancel"), QueueRules(1, "cancel", 5)),
        (QueueRules(slots=0), None, None, QueueRules(0, "finish", 100_000)),
        (None, None, QueueRules(slots=0, max_queued=0), QueueRules(0, "finish", 0)),
    ],
)
def test_each_layer_gives_only_what_it_says(
    default: QueueRules | None, named: QueueRules | None, durable: QueueRules | None, expected: QueueRules
) -> None:
    given = {name: rules for name, rules in {"default": default, "q": named}.items() if rules is not None}
    assert limits(4, given).of("q", durable) == expected


def test_the_default_queue_is_the_default() -> None:
    given = limits(4, {"default": QueueRules(slots=1), "q": QueueRules(slots=2)})
    assert given.of("default", None) == given.of("nobody named it", None) == QueueRules(1, "finish", 100_000)
    assert given.max_slots == 4


def test_a_stored_limit_of_all_queues_wins_over_the_config_until_it_is_removed() -> None:
    given = limits(4, {"q": QueueRules(slots=2)})
    for stored, slots in ((9, 9), (None, 4)):
        given.use_stored(stored)
        assert (given.max_slots, given.of("any", None).slots, given.of("q", None).slots) == (slots, slots, 2)
    fixed = limits(4, {"default": QueueRules(slots=1)})
    fixed.use_stored(9)
    assert (fixed.max_slots, fixed.of("any", None).slots) == (9, 1)


def test_the_most_specific_pattern_of_a_key_counts() -> None:
    keys: dict[str, int | KeyRule | None] = {"*": 9, "x": 1, "repo:*": 2, "repo:a*": 3, "gone:*": None}
    found = {key: key_rule(key_rules(keys), key).limit for key in ("x", "y", "repo:b", "repo:ab", "gone:1")}
    assert found == {"x": 1, "y": 9, "repo:b": 2, "repo:ab": 3, "gone:1": 9}
    assert key_rule({}, "any") == KeyRule(1)


def test_stored_patterns_are_laid_over_those_of_the_config() -> None:
    rate = Rate(5, 1000)
    given = limits(4, {"default": QueueRules(keys={"a": 1}, rate=rate), "q": QueueRules(keys={"b": 2, "c": 3})})
    stored = QueueRules(keys={"c": None, "d": 4}, rate=Rate(0, 1))
    rules = given.of("q", stored)
    assert key_rules(rules.keys) == {"a": KeyRule(1), "b": KeyRule(2), "d": KeyRule(4)}
    assert (rules.rate, given.of("q", None).rate) == (None, rate)
    assert given.has_rates
    assert not limits(4, {}).has_rates
