"""Random histories of keys, groups, rates and slots: each claim starts what the limits allow and no more, and the
counters in memory equal the tables, across restarts and rollbacks."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from semantica_daemon.errors import TooManySlots
from semantica_daemon.store.database import Command, FailedAfterWrite
from semantica_daemon.store.run_transition import Claim
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.claim import claim
from semantica_daemon.store.writes.enqueue import enqueue
from semantica_daemon.store.writes.groups import create
from semantica_daemon.store.writes.queues import configure
from semantica_daemon.wire.group import CreateGroupParams
from semantica_daemon.wire.queue import ConfigureParams, KeyRule, Rate
from tests.builders import Store, admitted
from tests.stateful.limits_model import MAX, Expectation, Limits
from tests.store import invariants
from tests.store.steps import BAD, GOOD, HOPELESS, end, put, stop, tick

STEPS = 250
QUEUES = ("default", "a", "b")
KEYS = (None, None, "x", "y", "repo:1", "repo:2")
GROUPS = (None, None, None, "g", "h", "i")


class Broken(Exception):
    pass


class Walk:
    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.chance, self.seed = path, Random(seed), seed
        self.store = Store(path, slots=MAX, seed=seed)
        self.limits = Limits()
        self.running: list[Claim] = []

    def step(self) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (10, self.adds), (8, self.ends), (6, self.waits), (2, self.cancels), (2, self.sets_slots),
            (2, self.sets_keys), (2, self.sets_rate), (1, self.creates_group), (1, self.restarts), (1, self.rolls_back),
        ]  # fmt: skip
        (act,) = self.chance.choices([act for _, act in acts], [weight for weight, _ in acts])
        act()
        self.claims()
        invariants.check(self.store)

    def claims(self) -> None:
        expected = Expectation(self.store, self.limits).started()
        started = self.store.claim()
        assert [one.run.job_id for one in started] == expected
        self.running += started

    def adds(self) -> None:
        pick = self.chance.choice
        for _ in range(self.chance.randint(1, 4)):
            self.store.now += 1
            spec: dict[str, Any] = {"queue": pick(QUEUES), "concurrency_key": pick(KEYS)}
            spec |= {"chain_group_id": pick(GROUPS)}
            spec |= {"slots": pick((1, 1, 1, 2, 3)), "priority": pick((0, 0, 5)), "max_attempts": pick((1, 3))}
            with suppress(TooManySlots):
                put(self.store, backoff_base_ms=200, **spec)

    def ends(self) -> None:
        for _ in range(self.chance.randint(1, 2)):
            if self.running:
                claimed = self.running.pop(self.chance.randrange(len(self.running)))
                end(self.store, claimed, self.chance.choice((GOOD, GOOD, BAD, HOPELESS)))

    def waits(self) -> None:
        tick(self.store, self.chance.choice((1, 50, 300, 1000)))

    def cancels(self) -> None:
        waiting = self.store.rows("SELECT id FROM jobs WHERE state IN ('QUEUED', 'SCHEDULED')")
        if waiting:
            stop(self.store, self.chance.choice(waiting)["id"])

    def sets_slots(self) -> None:
        queue, slots = self.chance.choice(QUEUES), self.chance.randint(0, MAX)
        self.store.run(configure, ConfigureParams(queue, slots=slots))
        self.limits.slots[queue] = slots

    def sets_keys(self) -> None:
        queue, pattern = self.chance.choice(QUEUES), self.chance.choice(("*", "repo:*", "x"))
        rule = KeyRule(self.chance.randint(0, 3), self.chance.choice((None, None, Rate(2, 500))))
        self.store.run(configure, ConfigureParams(queue, keys={pattern: rule}))
        self.limits.keys.setdefault(queue, {})[pattern] = rule

    def sets_rate(self) -> None:
        queue, rate = self.chance.choice(QUEUES), self.chance.choice((Rate(0, 1), Rate(1, 500), Rate(3, 500)))
        self.store.run(configure, ConfigureParams(queue, rate=rate))
        self.limits.rates.pop(queue, None)
        if rate.count:
            self.limits.rates[queue] = rate

    def creates_group(self) -> None:
        name, mode, most = self.chance.choice("ghi"), self.chance.choice(("parallel", "sequential")), None
        most = self.chance.choice((None, 1, 2)) if mode == "parallel" else None
        on_failure = self.chance.choice(("stop", "skip"))
        policy: dict[str, Any] = {"mode": mode, "max_parallel": most, "on_failure": on_failure}
        if name not in self.limits.groups:
            self.store.run(create, CreateGroupParams(name, **policy))
            self.limits.groups[name] = (mode, most)

    def restarts(self) -> None:
        now = self.store.now
        self.store.close()
        self.seed += 1000
        self.store = Store(self.path, slots=MAX, seed=self.seed)
        self.store.now = now

    def rolls_back(self) -> None:
        """A command fails after others have written; the whole batch is lost, its claims included."""

        def breaks(tx: Tx, _: object) -> None:
            claim(tx)
            tx.execute("UPDATE jobs SET updated_at = updated_at")
            raise Broken

        added = Command(enqueue, admitted(concurrency_key="x", chain_group_id="g", priority=9))
        with pytest.raises(FailedAfterWrite):
            self.store.database.transact([added, Command(breaks, None)], self.store.now, None)


@pytest.mark.parametrize("seed", range(6))
def test_what_starts_is_what_the_limits_allow_and_the_counters_equal_the_tables(tmp_path: Path, seed: int) -> None:
    walk = Walk(tmp_path / "meta.db", seed)
    for _ in range(STEPS):
        walk.step()
    walk.store.close()
