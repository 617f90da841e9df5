"""kill -9 under load, many times: nothing acknowledged is lost, nothing runs twice that must not, no process stays.

The daemon is killed, or its supervisor, or both, or every process of it. SEMANTICA_KILLS says how often
(`scripts/soak`), SEMANTICA_SEED repeats a run as far as the machine allows.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom

import pytest

from tests.crash import invariants, process_list
from tests.crash.journal import Journal
from tests.crash.load import Caller, Ledger
from tests.crash.waiting_jobs import EverySecond
from tests.engine import sample_handlers
from tests.harness import PATIENCE_S, Process
from tests.stopwatch import Stopwatch

KILLS = int(os.environ.get("SEMANTICA_KILLS", "8"))
SEED = int(os.environ.get("SEMANTICA_SEED") or SystemRandom().randrange(2**32))
KILLS_A_ROUND = 16
CLIENTS = 3
QUEUES = "[queues.default]\nslots = 6\n[queues.commands]\nslots = 4\n"
CONFIG = sample_handlers.config(slots=12, more=f'{QUEUES}[machine]\nidle = "always"\npower = "mains"\n')
FILES = {
    "config.toml",
    "meta.db",
    "meta.db-wal",
    "meta.db-shm",
    "daemon.lock",
    "supervisor.lock",
    "workspaces",
    "stderr.log",
}


def kill_daemon(process: Process) -> None:
    process.kill()


def kill_supervisor(process: Process) -> None:
    """The daemon lives on, and has work to do about it."""
    process_list.kill(process_list.supervisors(process.home))
    assert process.call("admin.health")["status"] == "ready"
    process.kill()


def kill_supervisor_first(process: Process) -> None:
    process_list.kill(process_list.supervisors(process.home))
    process.kill()


def kill_supervisor_last(process: Process) -> None:
    supervisors = process_list.supervisors(process.home)
    process.kill()
    process_list.kill(supervisors)


def kill_everything(process: Process) -> None:
    process_list.kill(
        [found.pid for found in process_list.processes(process.home)] + process_list.supervisors(process.home)
    )
    process.kill()


# The daemon alone in every second case.
WAYS: list[Callable[[Process], None]] = [kill_supervisor, kill_supervisor_first, kill_supervisor_last, kill_everything]
WAYS += [kill_daemon] * len(WAYS)


class Round:
    """One home with its daemon and clients, and the ledger and journal that the kills cannot reach."""

    def __init__(self, home: Path, journal: Journal, random: Random) -> None:
        self.home = home
        self.journal = journal
        self.random = random
        self.ledger = Ledger()
        self._ways: list[Callable[[Process], None]] = []

    def play(self, kills: int) -> None:
        (self.home / "config.toml").write_text(CONFIG)
        with Process(self.home).start() as process:
            self.seconds = EverySecond(process)
            callers = [self._caller(process, f"c{number}") for number in range(CLIENTS)]
            for caller in callers:
                caller.start()
            for _ in range(kills):
                self._kill_once(process)
            for caller in callers:
                caller.stop.set()
                caller.join(PATIENCE_S)
            assert [caller.failure for caller in callers] == [None] * CLIENTS
            self.seconds.stop(process)
            until_all_has_ended(process)
            self._check(ended=True)
            assert process_list.processes(self.home) == []
            assert process.stop() == 0
        self._check(ended=True)
        process_list.check_empty(self.home)
        self._check_files()

    def _caller(self, process: Process, name: str) -> Caller:
        return Caller(process, self.ledger, self.journal, name, self.random.randrange(2**32))

    def _kill_once(self, process: Process) -> None:
        """Lets the daemon work for a moment, kills it, starts it again and checks the database."""
        time.sleep(self.random.uniform(0.02, 0.4))
        self._next_way()(process)
        watch = Stopwatch()
        process.start()
        assert process.process is not None
        assert watch.seconds(process.process.pid) < 5
        self._check(ended=False)

    def _next_way(self) -> Callable[[Process], None]:
        """Each of WAYS before any of them again, in an order of its own."""
        self._ways = self._ways or self.random.sample(WAYS, len(WAYS))
        return self._ways.pop()

    def _check(self, ended: bool) -> None:
        process_list.check(self.home)
        invariants.check(self.home)
        self.ledger.check(self.home, ended)
        self.seconds.check(self.home)
        self.journal.check(self.home, ended)

    def _check_files(self) -> None:
        """Nothing but what belongs there: every folder is that of a job."""
        left = {path.name for path in self.home.iterdir()} - FILES
        folders = {path.name for path in (self.home / "workspaces").iterdir()}
        with invariants.reading(self.home) as connection:
            commands = connection.execute("SELECT id FROM jobs WHERE execution_mode = 'SUBPROCESS'").fetchall()
        assert (left, folders - {row[0] for row in commands}) == (set(), set())

    def summary(self) -> str:
        lines = self.journal.lines()
        begun = {line.run_id for line in lines if line.word == "begin"}
        jobs = f"{len(self.ledger.jobs)} jobs, {len(self.ledger.latched)} events latched"
        return f"{jobs}, {len(begun)} runs of commands, {len(lines)} lines"


@pytest.mark.timeout(60 + 10 * KILLS)
def test_whatever_is_killed_nothing_acknowledged_is_lost() -> None:
    """In rounds, each in a home of its own, so that a long soak does not only check its own history.

    The home and the journal of a round that fails are kept."""
    print(f"SEMANTICA_SEED={SEED} SEMANTICA_KILLS={KILLS}")
    random = Random(SEED)
    left = KILLS
    while left > 0:
        home, outside = (Path(tempfile.mkdtemp(prefix=prefix)) for prefix in ("sem-", "sem-journal-"))
        print(f"round in {home}, journal in {outside}")
        one, kills = Round(home, Journal(outside), random), min(left, KILLS_A_ROUND)
        one.play(kills)
        assert len(one.ledger.jobs) > kills, "there was load"
        left -= kills
        print(f"{KILLS - left} of {KILLS} kills: {one.summary()}")
        for folder in (home, outside):
            shutil.rmtree(folder)


def until_all_has_ended(process: Process, seconds: float = 60) -> None:
    give_up = time.monotonic() + seconds
    while any(one["queued"] + one["scheduled"] + one["running"] for one in process.call("admin.stats")["queues"]):
        assert time.monotonic() < give_up, process.call("admin.stats")["queues"]
        time.sleep(0.05)
