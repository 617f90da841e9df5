"""A real daemon, in any order asked, killed, stopped and started again: whatever it has promised holds.

SEMANTICA_EXAMPLES says how many walks (`scripts/soak`), SEMANTICA_SEED repeats one as far as the machine allows.
"""

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings

from tests.stateful import daemon_machine as choices
from tests.stateful.daemon_machine import KEYS, KINDS, ON_RUNNING, SEED, SPEC, WAITS, WAYS, DaemonMachine

EXAMPLES = int(os.environ.get("SEMANTICA_EXAMPLES", "2"))
WALKS = max(1, EXAMPLES // 3)
pytestmark = pytest.mark.timeout(120 + 20 * EXAMPLES)

# Real time makes each walk a new one: a smaller failure would be another, so it is shown as it was found.
TestDaemonMachine = seed(SEED)(DaemonMachine).TestCase
TestDaemonMachine.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=25,
    deadline=None,
    print_blob=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def step(machine: DaemonMachine, chance: Random) -> None:
    """One rule with values of its own, the everyday ones more often than the rest."""
    pick, kind = chance.randrange(10**6), chance.choice(KINDS)
    chosen = {field: chance.choice(values) for field, values in SPEC.items()}
    ways: list[tuple[int, Callable[[], Any]]] = [
        (14, lambda: machine.enqueues(kind=kind, chosen=chosen)),
        (5, lambda: machine.saves_again(kind=kind, on_running=chance.choice(ON_RUNNING))),
        (5, lambda: machine.joins_a_line(kind=kind, mode=chance.choice(choices.MODES))),
        (4, lambda: machine.enqueues_to_wait(kind=kind, schedule=chance.choice(WAITS))),
        (2, lambda: machine.emits(key=chance.choice(KEYS))),
        (1, lambda: machine.pauses_or_resumes()),
        (1, lambda: machine.sets_the_slots_of_all_queues(slots=chance.choice(choices.ALL_SLOTS))),
        (2, lambda: machine.deletes_a_queue(queue=chance.choice(choices.QUEUES))),
        (3, lambda: machine.is_disturbed(way=chance.choice(WAYS))),
        (1, lambda: machine.is_killed_before_it_answers(kind=kind)),
    ]
    if machine.promises.jobs:
        ways += [
            (5, lambda: machine.cancels(pick=pick, killed=pick % 6 == 0)),
            (5, lambda: machine.waits(pick=pick, ms=pick % 100)),
        ]
        ways += [
            (6, lambda: machine.enqueues_a_child(kind=kind, pick=pick)),
            (4, lambda: machine.reads_a_log(pick=pick)),
            (6, lambda: machine.retries(pick=pick, force=pick % 2 == 0)),
        ]
    chance.choices([way for _, way in ways], [weight for weight, _ in ways])[0]()


@pytest.mark.parametrize("walk", range(WALKS))
def test_a_long_walk_of_a_daemon(walk: int) -> None:
    """Hypothesis likes to leave rules out; an even walk has work of every kind under way when it is disturbed."""
    print(f"SEMANTICA_SEED={SEED}")
    chance, machine = Random(SEED + walk), DaemonMachine()
    machine.open(first=[])
    try:
        for _ in range(40):
            step(machine, chance)
            machine.the_database_is_sound()
            machine.no_two_runs_of_a_job_overlap()
            machine.the_stream_is_what_was_told_and_more()
            machine.what_was_acknowledged_is_there()
    except BaseException as error:
        error.add_note(f"again with SEMANTICA_SEED={SEED}, walk {walk}; the home is kept: {machine.home}")
        raise
    finally:
        machine.teardown()
