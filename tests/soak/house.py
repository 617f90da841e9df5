"""One daemon under load of all kinds of jobs, and all that is checked about it after each round."""

import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.crash import invariants, process_list
from tests.crash.journal import Journal
from tests.crash.load import Caller, Ledger
from tests.crash.test_kill_loop import CONFIG, until_all_has_ended
from tests.crash.test_workers import work
from tests.crash.waiting_jobs import EverySecond
from tests.faults import Faults
from tests.harness import PATIENCE_S, Process, RpcError
from tests.soak.seen import Subscriber

CALLERS = 2


class ChainsAndExternalJobs(threading.Thread):
    """Chains of three jobs and jobs for external workers, until it is told to stop."""

    def __init__(self, process: Process, ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._ledger = ledger
        self._number = 0
        self.stop = threading.Event()
        self.failure: RpcError | None = None

    def run(self) -> None:
        while not self.stop.wait(0.05) and self.failure is None:
            try:
                self._add()
            except (OSError, EOFError):
                continue
            except RpcError as refused:
                self.failure = refused if refused.code < 5000 else None

    def _add(self) -> None:
        self._number += 1
        parents: list[str] = []
        for step in range(3):
            spec: dict[str, Any] = {"job_type": "semantica.noop", "idempotency_key": f"chain-{self._number}-{step}"}
            parents = [self._enqueue(spec | {"max_attempts": 3, "backoff_base_ms": 20, "parents": parents})]
        self._enqueue({"job_type": "work", "execution_mode": "EXTERNAL", "on_interrupt": "requeue", "max_attempts": 9})

    def _enqueue(self, spec: dict[str, Any]) -> str:
        """A call that is refused for now, or not answered, ends this chain."""
        ack = self._process.call("job.enqueue", **spec)
        self._ledger.acknowledged(spec, ack)
        return str(ack["job_id"])


class House:
    """`faults` are switched on by rounds, which cannot reach the ledger, the journal and the subscriber."""

    def __init__(self, home: Path, outside: Path, random: Random) -> None:
        self.home = home
        self.random = random
        self.faults = Faults(outside)
        self.ledger = Ledger()
        self.journal = Journal(outside)
        (home / "config.toml").write_text(CONFIG)
        self.process = Process(home, **self.faults.environment).start()
        self.seconds = EverySecond(self.process)
        self.subscriber = Subscriber(self.process)
        self.chains = ChainsAndExternalJobs(self.process, self.ledger)
        seeds = [random.randrange(2**32) for _ in range(CALLERS)]
        self.callers = [
            Caller(self.process, self.ledger, self.journal, f"c{number}", seed, tolerant=True)
            for number, seed in enumerate(seeds)
        ]
        for thread in (self.subscriber, self.chains, *self.callers):
            thread.start()
        self.workers = threading.Thread(target=self._work, daemon=True)
        self.workers.start()

    def _work(self) -> None:
        while not self.subscriber.ended.is_set():
            with suppress(OSError, EOFError, AssertionError, TypeError):
                work(self.process)

    def let_it_work(self, most_s: float = 0.8) -> None:
        time.sleep(self.random.uniform(0.05, most_s))

    def start_if_gone(self) -> None:
        """After a fault the daemon may have left, as it says it would; then it is started again."""
        assert self.process.process is not None
        if self.process.process.poll() is not None:
            self.process.start(ready=False)
        give_up = time.monotonic() + PATIENCE_S
        while not self._is_ready():
            assert time.monotonic() < give_up, f"not ready again: {self.process.stderr()}"
            if self.process.process.poll() is not None:
                self.process.start(ready=False)
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        with suppress(OSError, EOFError):
            return bool(self.process.call("admin.health")["status"] == "ready")
        return False

    def check(self, ended: bool = False) -> None:
        process_list.check(self.home)
        invariants.check(self.home)
        self.ledger.check(self.home, ended)
        self.seconds.check(self.home)
        self.journal.check(self.home, ended)
        self.subscriber.check(self.home)

    def end(self) -> None:
        """Everything acknowledged comes to its end, and nothing stays."""
        clients: list[Caller | ChainsAndExternalJobs] = [*self.callers, self.chains]
        for client in clients:
            client.stop.set()
        for client in clients:
            client.join(PATIENCE_S)
        assert [client.failure for client in clients] == [None] * len(clients)
        self.seconds.stop(self.process)
        until_all_has_ended(self.process, 90)
        self.check(ended=True)
        self.subscriber.ended.set()
        assert self.process.stop() == 0
        process_list.check_empty(self.home)
        self.check(ended=True)
