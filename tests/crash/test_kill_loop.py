"""kill -9, again and again, under load: nothing acknowledged is lost, nothing runs twice that must not.

SEMANTICA_KILLS says how often (`scripts/soak`), SEMANTICA_SEED repeats a run as far as the machine allows.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom

import pytest

from tests.crash import invariants
from tests.crash.load import Caller, Ledger
from tests.engine import deeds
from tests.harness import Process

KILLS = int(os.environ.get("SEMANTICA_KILLS", "30"))
SEED = int(os.environ.get("SEMANTICA_SEED", SystemRandom().randrange(2**32)))
KILLS_A_ROUND = 25
CLIENTS = 4
CONFIG = deeds.config(slots=12, more="[queues.default]\nslots = 8\n")


@pytest.mark.timeout(60 + 10 * KILLS)
def test_whatever_is_killed_nothing_acknowledged_is_lost() -> None:
    """In rounds, each in a home of its own, so that a long soak does not only check its own history.

    The home of a round that fails is kept."""
    print(f"SEMANTICA_SEED={SEED} SEMANTICA_KILLS={KILLS}")
    random = Random(SEED)
    left = KILLS
    while left > 0:
        home = Path(tempfile.mkdtemp(prefix="sem-"))
        print(f"round in {home}")
        play_round(home, min(left, KILLS_A_ROUND), random)
        left -= KILLS_A_ROUND
        shutil.rmtree(home)
        print(f"{KILLS - max(left, 0)} of {KILLS} kills")


def play_round(home: Path, kills: int, random: Random) -> None:
    (home / "config.toml").write_text(CONFIG)
    ledger = Ledger()
    with Process(home).start() as process:
        callers = [Caller(process, ledger, f"c{number}", random.randrange(2**32)) for number in range(CLIENTS)]
        for caller in callers:
            caller.start()
        for _ in range(kills):
            kill_once(process, ledger, random.uniform(0.02, 0.4))
        for caller in callers:
            caller.stop.set()
            caller.join(10)
        assert [caller.failure for caller in callers] == [None] * CLIENTS
        until_all_has_ended(process)
        invariants.check(home)
        ledger.check(home, ended=True)
        assert len(ledger.jobs) > kills, "there was load"
        assert process.stop() == 0
    invariants.check(home)
    ledger.check(home, ended=True)


def kill_once(process: Process, ledger: Ledger, after: float) -> None:
    """Let it work for a moment, kill it, start it again, and look at what it has kept."""
    time.sleep(after)
    process.kill()
    began = time.monotonic()
    process.start()
    assert time.monotonic() - began < 5
    invariants.check(process.home)
    ledger.check(process.home, ended=False)


def until_all_has_ended(process: Process, seconds: float = 30) -> None:
    give_up = time.monotonic() + seconds
    while any(one["queued"] + one["scheduled"] + one["running"] for one in process.call("admin.stats")["queues"]):
        assert time.monotonic() < give_up, process.call("admin.stats")["queues"]
        time.sleep(0.05)
