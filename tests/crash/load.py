"""Clients that keep a daemon busy while it is killed, and a ledger of what it has acknowledged to them."""

import json
import threading
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.crash.invariants import reading
from tests.crash.journal import Journal
from tests.crash.waiting_jobs import PendingEvent, PendingEvents, check_latched
from tests.harness import Process

# What a command may be, the everyday ones more often; `tests/crash/command` has them.
COMMANDS = ["plain", "plain", "write", "fail", "die", "deaf", "fork", "escape", "deaf_escape", "bare_escape", "relay"]
TERMINAL = {"DONE", "FAILED", "CANCELLED", "SUPERSEDED", "SKIPPED_TTL", "SKIPPED_DEADLINE"}


class Ledger:
    """What the daemon has acknowledged to all clients; lives in the test process, which is not killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.cancelled: set[str] = set()
        self.keys: dict[str, str] = {}
        self.latched: set[tuple[str, str]] = set()
        self.broken: list[str] = []

    def acknowledged(self, spec: dict[str, Any], ack: dict[str, Any]) -> None:
        with self._lock:
            self.jobs[ack["job_id"]] = spec
            key = spec.get("idempotency_key")
            if key and self.keys.setdefault(key, ack["job_id"]) != ack["job_id"]:
                self.broken.append(f"key {key} gave {self.keys[key]} and {ack['job_id']}")

    def one_with_key(self, random: Random, name: str) -> dict[str, Any] | None:
        """A spec with an idempotency key that this client got an acknowledgement for."""
        with self._lock:
            own = [job_id for key, job_id in self.keys.items() if key.startswith(f"{name}-")]
            return self.jobs[random.choice(own)] if own else None

    def cancel_accepted(self, job_ids: list[str]) -> None:
        with self._lock:
            self.cancelled.update(job_ids)

    def emit_answered(self, job_id: str, key: str) -> None:
        with self._lock:
            self.latched.add((job_id, key))

    def promised(self) -> tuple[set[str], set[str]]:
        with self._lock:
            return set(self.jobs), set(self.cancelled)

    def check(self, home: Path, ended: bool) -> None:
        """Fails when an acknowledged job is lost; with `ended`, when one has not ended, or a cancel was forgotten."""
        jobs, cancelled = self.promised()
        with self._lock:
            latched = set(self.latched)
        check_latched(home, latched, ended)
        with reading(home) as connection:
            states = dict(connection.execute("SELECT id, state FROM jobs").fetchall())
        lost = jobs - states.keys()
        assert not lost, f"{len(lost)} acknowledged jobs are lost: {sorted(lost)[:5]}"
        assert not self.broken
        if ended:
            live = {job_id for job_id in jobs if states[job_id] not in TERMINAL}
            assert not live, f"{len(live)} acknowledged jobs never ended: {sorted(live)[:5]}"
            other = {job_id: states[job_id] for job_id in cancelled if states[job_id] != "CANCELLED"}
            assert not other, f"an accepted cancel was forgotten: {other}"


class Caller(threading.Thread):
    """One client. It records replies; when a connection breaks it connects again and repeats calls that have a key."""

    def __init__(
        self, process: Process, ledger: Ledger, journal: Journal, name: str, seed: int, tolerant: bool = False
    ) -> None:
        """`tolerant`: a daemon whose disk fails may refuse for now; the call is repeated like one without a reply."""
        super().__init__(name=name, daemon=True)
        self._tolerant = tolerant
        self._process = process
        self._ledger = ledger
        self._journal = journal
        self._random = Random(seed)
        self._number = 0
        self._generation = 0
        self._events = PendingEvents(name, self._random)
        self._owed: list[dict[str, Any]] = []
        self.stop = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self._converse()
                self.stop.wait(0.01)
            with self._process.connect() as connection, connection.makefile("rwb") as stream:
                self._emit(stream, everything=True)
        except BaseException as error:
            self.failure = error

    def _converse(self) -> None:
        """Sends bursts of calls over one connection until it breaks, so that a kill always finds unanswered ones."""
        with suppress(OSError, EOFError), self._process.connect() as connection, connection.makefile("rwb") as stream:
            while not self.stop.wait(0.005):
                fresh = [self._spec() for _ in range(self._random.randrange(1, 20))]
                self._owed = self._owed + fresh
                self._burst(stream)
                self._emit(stream, everything=False)
                self._maybe_ask_again()
        self._owed = [spec for spec in self._owed if "idempotency_key" in spec]

    def _burst(self, stream: Any) -> None:
        """Sends every owed spec; the ledger records each reply, and the spec is owed no longer."""
        asked = dict(enumerate(self._owed))
        for number, spec in asked.items():
            _send(stream, number, "job.enqueue", spec)
        stream.flush()
        if self._random.random() < 0.05:
            raise EOFError("hangs up without waiting for its answers")
        while asked:
            number, ack = _receive(stream, self._tolerant)
            spec = asked.pop(number)
            self._ledger.acknowledged(spec, ack)
            self._events.acknowledged(spec, ack["job_id"])
            self._owed.remove(spec)
        self._maybe_cancel(stream)

    def _emit(self, stream: Any, everything: bool) -> None:
        """Emits events that its jobs wait for; the ledger records each reply."""
        asked: dict[int, PendingEvent] = dict(enumerate(self._events.to_emit(everything)))
        for number, event in asked.items():
            _send(stream, number, "event.emit", {"key": event.key, "value": event.value})
        stream.flush()
        for _ in list(asked):
            number, answer = self._answer(stream, asked)
            event = asked.pop(number)
            self._events.emitted(event, answer["matched"])
            if event.job_id is not None:
                self._ledger.emit_answered(event.job_id, event.key)

    def _answer(self, stream: Any, asked: dict[int, PendingEvent]) -> tuple[int, Any]:
        try:
            return _receive(stream, self._tolerant)
        except (OSError, EOFError):
            for event in asked.values():
                event.tried = True
            raise

    def _maybe_ask_again(self) -> None:
        """Repeats an old call as if its reply had been lost; it must give the same job."""
        if self._random.random() < 0.3:
            again = self._ledger.one_with_key(self._random, self.name)
            self._owed += [again] if again else []

    def _maybe_cancel(self, stream: Any) -> None:
        """Cancels a new job of a queue with slots of its own, so that it is running and takes a while to stop."""
        if self._random.random() < 0.3:
            spec = self._command() if self._random.random() < 0.3 else self._busy()
            spec |= {"queue": "stopped", "max_attempts": 3}
            _send(stream, 0, "job.enqueue", spec)
            stream.flush()
            _, ack = _receive(stream, self._tolerant)
            self._ledger.acknowledged(spec, ack)
            _send(stream, 0, "job.cancel", {"job_id": ack["job_id"]})
            stream.flush()
            _, answer = _receive(stream, self._tolerant)
            self._ledger.cancel_accepted(answer["cancelled"] + answer["cancelling"])

    def _spec(self) -> dict[str, Any]:
        choose = self._random.random
        self._number += 1
        if choose() < 0.03:
            spec = self._command()
        elif choose() < 0.15:
            spec = self._busy()
        else:
            spec = {"job_type": "semantica.noop", "payload": {"n": self._number}}
        spec |= {"max_attempts": self._random.choice((0, 1, 1, 3)), "backoff_base_ms": 20}
        if choose() < 0.1:
            spec["on_interrupt"] = "requeue"
        if choose() < 0.5:
            spec["idempotency_key"] = f"{self.name}-{self._number}"
        if choose() < 0.05:
            spec["durable"] = True
        if choose() < 0.04 and spec["job_type"] != "command":
            return spec | {"schedule": self._events.schedule()}
        return spec | self._lane() if choose() < 0.3 and spec["job_type"] != "command" else spec

    def _busy(self) -> dict[str, Any]:
        job_type = self._random.choice(("semantica.sleep", "busy"))
        return {"job_type": job_type, "payload": {"ms": self._random.randrange(60)}}

    def _command(self) -> dict[str, Any]:
        """A command, sometimes in a lane that all clients share, where a newer one may interrupt it."""
        self._number += 1
        kind, ms = self._random.choice(COMMANDS), self._random.randrange(150)
        spec = {"job_type": "command", "queue": "commands", "grace_ms": 40}
        if self._random.random() < 0.7:
            return spec | {"payload": self._journal.command(kind, ms, f"{self.name}-{self._number}")}
        lane = f"lane{self._random.randrange(3)}"
        on_running = self._random.choice(("finish", "cancel"))
        return spec | {
            "payload": self._journal.command(kind, ms, lane), "subject_key": lane, "on_running": on_running
        }  # fmt: skip

    def _lane(self) -> dict[str, Any]:
        """A lane of this client with its own generations, one that all share, or a debounced one."""
        if self._random.random() < 0.2:
            return {"subject_key": "saved", "debounce_ms": 30, "max_wait_ms": 150}
        if self._random.random() < 0.5:
            self._generation += self._random.randrange(1, 4)
            return {"subject_key": f"own::{self.name}", "generation": self._generation}
        on_running = self._random.choice(("finish", "cancel"))
        return {"subject_key": f"shared::{self._random.randrange(3)}", "on_running": on_running}


def _send(stream: Any, number: int, method: str, params: dict[str, Any]) -> None:
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    stream.write(json.dumps(request).encode() + b"\n")


def _receive(stream: Any, tolerant: bool) -> tuple[int, Any]:
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    reply = json.loads(line)
    if "error" in reply:
        if tolerant and reply["error"]["code"] >= 5000:
            raise EOFError("refused for now")
        raise AssertionError(f"refused: {reply['error']}")
    return reply["id"], reply["result"]
