"""`scripts/soak --minutes N [--seed S]`: random rounds of kills, faults and power losses until the time is up.

Prints a line a minute and one line of figures at the end; exits with 1 if anything was lost, doubled or stuck.
"""

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom

from tests.soak.house import House
from tests.soak.rounds import ROUNDS, lose_power

ROUNDS_A_HOUSE = 12
NOT_TESTED = ("corruption sweep: it needs a recovery from damaged files", "clock steps: tests/stateful walks them")
# The first words that fit a finding; whatever fits none of them is counted as broken.
KINDS = {
    "lost": ("are lost", "forgotten", "not stored"),
    "doubled": ("twice", "more than once", "overlap", "held its lock", "two jobs", "ran more often", " after Line("),
    "stuck": ("never ended", "not ready", "queued", "did not run", "not all seconds", "TimeoutExpired"),
}


class Soak:
    def __init__(self, minutes: float, seed: int) -> None:
        self.seed = seed
        self.minutes = minutes
        self.random = Random(seed)
        self.counts: Counter[str] = Counter()
        self._began = time.monotonic()
        self._told = 0

    def run(self) -> int:
        for words in NOT_TESTED:
            print(f"NOT TESTED: {words}")
        while self._minutes() < self.minutes and not self._failed():
            self._try(self._live_in_a_house)
            self._try(self._lose_power)
        print(self.figures())
        if self._failed():
            print(f"run it again: scripts/soak --minutes {self.minutes:g} --seed {self.seed}")
        return 1 if self._failed() else 0

    def figures(self) -> str:
        names = ("kills", "faults", "images", "jobs", "lost", "doubled", "stuck", "broken")
        return " ".join([f"{name}={self.counts[name]}" for name in names] + [f"seed={self.seed}"])

    def _try(self, part: Callable[[], None]) -> None:
        """A finding is printed and counted; its folders are kept."""
        try:
            part()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            kind = next((kind for kind, words in KINDS.items() if any(word in text for word in words)), "broken")
            self.counts[kind] += 1
            traceback.print_exc()

    def _live_in_a_house(self) -> None:
        home, outside = (Path(tempfile.mkdtemp(prefix=prefix)) for prefix in ("sem-", "sem-outside-"))
        print(f"a daemon in {home}, its journal in {outside}", flush=True)
        house = House(home, outside, self.random)
        try:
            for _ in range(ROUNDS_A_HOUSE):
                house.let_it_work()
                self.counts[self.random.choice(ROUNDS)(house)] += 1
                house.start_if_gone()
                house.check()
                self._tell()
                if self._minutes() >= self.minutes:
                    break
            house.end()
        finally:
            self.counts["jobs"] += len(house.ledger.jobs)
            house.subscriber.ended.set()
            house.process.__exit__()
        for folder in (home, outside):
            shutil.rmtree(folder)

    def _lose_power(self) -> None:
        images, jobs = lose_power(self.random)
        self.counts["images"] += images
        self.counts["jobs"] += jobs
        self._tell()

    def _failed(self) -> bool:
        return any(self.counts[kind] for kind in (*KINDS, "broken"))

    def _minutes(self) -> float:
        return (time.monotonic() - self._began) / 60

    def _tell(self) -> None:
        if int(self._minutes()) > self._told:
            self._told = int(self._minutes())
            print(f"minute {self._told}: {self.figures()}", flush=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    arguments.add_argument("--minutes", type=float, required=True)
    arguments.add_argument("--seed", type=int, default=None)
    given = arguments.parse_args()
    chosen = SystemRandom().randrange(2**32) if given.seed is None else given.seed
    sys.exit(Soak(given.minutes, chosen).run())
