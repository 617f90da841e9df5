"""The store's verbs in any order, against a dict: same answers, same rows, and the invariants after every step.

SEMANTICA_WALKS says how many long walks, SEMANTICA_SEED repeats one.
"""

import os
from collections.abc import Callable
from random import Random, SystemRandom
from typing import Any

import pytest
from hypothesis import settings

from tests.stateful import choices
from tests.stateful.choices import EVENTS, FACTS, IDLE, NAMES, OUTCOMES, PAUSABLE, POWER, SCHEDULE, SETS_MS, STEPS_MS
from tests.stateful.editing_machine import CHANGES, WHERE
from tests.stateful.store_machine import StoreMachine
from tests.stateful.timetable import REBOOT

# A failure is made small before it is shown, and that takes its time.
pytestmark = pytest.mark.timeout(400)

WALKS = int(os.environ.get("SEMANTICA_WALKS", "6"))
Way = tuple[float, Callable[[], Any]]

TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=25 * max(1, WALKS // 6), stateful_step_count=50, deadline=None, print_blob=True
)

# What a walk is mostly about: how often it does a thing of each kind.
SUBJECTS = [
    {"arrival": 34, "run": 50, "time": 14, "wait": 16, "schedule": 10, "odd": 16},
    {"arrival": 8, "run": 40, "time": 30, "wait": 6, "schedule": 40, "odd": 12},
    {"arrival": 30, "run": 40, "time": 20, "wait": 50, "schedule": 2, "odd": 16},
    {"arrival": 26, "run": 40, "time": 8, "wait": 24, "schedule": 16, "odd": 20},
    {"arrival": 40, "run": 60, "time": 12, "wait": 6, "schedule": 2, "odd": 16},
]
# Of schedules that fire, of jobs that the machine may be lost to, of jobs that are retried or that events make, and of
# chains.
SPEC_OF: list[dict[str, list[Any]]] = [
    {},
    {
        "generation": [None],
        "deadline": [None],
        "ttl_ms": [None],
        "waits": [{}, {}, {}, IDLE],
        "queue": ["default", "one"],
    },
    {"deadline": [None], "waits": [{}, IDLE, POWER, IDLE | POWER, {"wait_for_event": "e"}], "subject_key": [None, "a"]},
    {
        "subject_key": ["a", "a", None],
        "generation": [None],
        "supersede": ["lane", "lane", "keep", "append"],
        "time": [None],
        "deadline": [None],
        "ttl_ms": [None],
        "debounce": [None],
        "waits": [{}, {}, {}, {"wait_for_event": "e"}, {"conditions": {"c": "1"}}],
        "queue": ["default", "small"],
    },
    {
        "subject_key": [None, None, None, "a"],
        "parents": [None, (0,), (0, 1), (1, 2, 3), (4,)],
        "time": [None, None, None, ("AFTER", 50)],
        "waits": [{}, {}, {}, {"wait_for_event": "e"}],
        "debounce": [None],
        "deadline": [None] * 5 + [30],
        "queue": ["default", "extra"],
    },
]
RETRIES, EMITS = [3, 3, 3, 15, 6], [1, 1, 1, 8, 1]
REPEATS_OF: list[list[dict[str, Any]]] = [
    *[choices.REPEATS] * 3,
    [one for one in choices.REPEATS if "on_event" in one or one.get("cron_expression") == REBOOT],
    choices.REPEATS,
]


def drawn(chance: Random, values: dict[str, list[Any]]) -> dict[str, Any]:
    return {field: chance.choice(some) for field, some in values.items()}


def step(machine: StoreMachine, chance: Random, subject: int) -> None:
    """One rule with values of its own."""
    spec = drawn(chance, choices.SPEC | SPEC_OF[subject])
    ways = {
        "arrival": arrivals(machine, chance, spec, RETRIES[subject]),
        "run": runs(machine, chance),
        "time": times(machine, chance),
        "wait": waits(machine, chance, EMITS[subject]),
        "schedule": schedules(machine, chance, spec, REPEATS_OF[subject]),
        "odd": odd(machine, chance),
    }
    kinds = SUBJECTS[subject]
    (kind,) = chance.choices(list(kinds), list(kinds.values()))
    chance.choices([way for _, way in ways[kind]], [weight for weight, _ in ways[kind]])[0]()


def arrivals(machine: StoreMachine, chance: Random, spec: dict[str, Any], retries: int) -> list[Way]:
    other, lane = drawn(chance, choices.SPEC), chance.randrange(100)
    return [
        (9, lambda: machine.enqueues(drawn=spec)),
        (retries if machine.model.jobs else 0, lambda: retries_a_job(machine, chance)),
        (retries / 5 if machine.model.lanes else 0, lambda: machine.retries_the_jobs_of_a_lane(pick=lane)),
        (1, lambda: machine.enqueues_and_deletes_the_queue(drawn=spec)),
        (1, lambda: machine.batches_with_poison_inside(first=spec, spoilt=spec, last=other)),
    ]


def retries_a_job(machine: StoreMachine, chance: Random) -> None:
    force, payload = chance.random() < 0.5, chance.choice(choices.PAYLOADS)
    machine.retries_a_job(pick=chance.randrange(10**6), force=force, payload=payload)


def runs(machine: StoreMachine, chance: Random) -> list[Way]:
    pick, outcome = chance.randrange(10**6), chance.choice(OUTCOMES)
    if not machine.model.running():
        return [(1, lambda: machine.claims())]
    return [
        (10, lambda: machine.claims()),
        (8, lambda: machine.begins(pick=pick)),
        (25, lambda: machine.finishes(pick=pick, outcome=outcome)),
    ]


def times(machine: StoreMachine, chance: Random) -> list[Way]:
    ms, looks = chance.choice(STEPS_MS[:-1]), chance.random() < 0.7
    return [
        (20, lambda: machine.time_passes(ms=ms, looks=looks)),
        (6, lambda: machine.settles()),
        (3, lambda: machine.the_clock_is_set(ms=chance.choice(SETS_MS))),
    ]


def waits(machine: StoreMachine, chance: Random, emits: int) -> list[Way]:
    return [
        (emits, lambda: machine.emits(said=chance.choice(EVENTS))),
        (2, lambda: machine.the_machine_changes(facts=chance.choice(FACTS), at_once=chance.random() < 0.7)),
    ]


def schedules(machine: StoreMachine, chance: Random, spec: dict[str, Any], repeats: list[dict[str, Any]]) -> list[Way]:
    """Jobs of schedules soon fill the queues: mostly there is one, and for a while."""
    name, some = chance.choice(NAMES), bool(machine.timetable.schedules)
    spec |= {"time": None} if chance.random() < 0.7 else {}
    spec |= {"subject_key": "t"} if spec["subject_key"] and chance.random() < 0.6 else {}  # a lane of its own
    asked = drawn(chance, SCHEDULE | {"repeat": repeats})
    return [
        (2 if machine.timetable.templates else 6, lambda: machine.puts_a_template(name=name, drawn=spec)),
        (2, lambda: machine.enqueues_from_a_template(name=name, priority=chance.choice([None, 1]))),
        (1, lambda: machine.deletes_a_template(name=name)),
        (2 if some else 6, lambda: machine.puts_a_schedule(drawn=asked)),
        (1, lambda: machine.switches_a_schedule(name=name, on=chance.random() < 0.7)),
        (4 if some else 0, lambda: machine.triggers_a_schedule(name=name)),
        (1, lambda: machine.deletes_a_schedule(name=name)),
    ]


def odd(machine: StoreMachine, chance: Random) -> list[Way]:
    pick, outcome = chance.randrange(10**6), chance.choice(OUTCOMES)
    set_by, queue = chance.choice(choices.SET_WHILE_AWAY_MS), chance.choice(choices.QUEUES)
    ways: list[Way] = [
        (3, lambda: machine.restarts(away=chance.choice([0, 5000]), set_by=set_by, rebooted=pick % 2 == 0)),
        (8 if machine.queues.paused else 1, lambda: pause_or_resume(machine, chance)),
        (2, lambda: machine.deletes_a_queue(queue=queue)),
        (1, lambda: machine.configures_a_queue(queue=queue, given=chance.choice(choices.SETTINGS))),
        (1, lambda: machine.configures_all_queues(slots=chance.choice(choices.ALL_SLOTS))),
    ]
    if machine.model.jobs:
        ways.append((3, lambda: machine.cancels(pick=pick)))
        ways += edits(machine, chance)
    if machine.over:
        ways.append((3, lambda: machine.answers_late(pick=pick, outcome=outcome)))
    return ways


def edits(machine: StoreMachine, chance: Random) -> list[Way]:
    pick, other, where = chance.randrange(10**6), chance.randrange(10**6), chance.choice(WHERE)
    return [
        (2, lambda: machine.holds(pick=pick)),
        (3, lambda: machine.releases(pick=pick)),
        (4, lambda: machine.moves(pick=pick, other=other, where=where)),
        (4, lambda: machine.updates(pick=pick, changes=chance.choice(CHANGES))),
    ]


def pause_or_resume(machine: StoreMachine, chance: Random) -> None:
    if machine.queues.paused:
        machine.resumes(pick=chance.randrange(100))
    else:
        machine.pauses(queue=chance.choice(PAUSABLE), after=chance.choice([None, 50]))


@pytest.mark.parametrize("walk", range(WALKS))
def test_a_long_walk_through_the_verbs(walk: int) -> None:
    """Hypothesis finds the small surprises; a long even walk reaches third attempts and full lanes."""
    seed = int(os.environ.get("SEMANTICA_SEED") or SystemRandom().randrange(2**32))
    chance, machine = Random(seed), StoreMachine()
    machine.open(claiming=chance.random() < 0.5)
    try:
        for _ in range(150):
            step(machine, chance, walk % len(SUBJECTS))
            machine.rows_are_the_model_s()
            machine.schedules_are_the_model_s()
            machine.environments_are_the_model_s()
            machine.the_store_is_sound()
        machine.what_was_told_live_is_what_is_replayed()
    except BaseException as error:
        error.add_note(f"again with SEMANTICA_SEED={seed}, walk {walk}")
        raise
    finally:
        machine.teardown()
