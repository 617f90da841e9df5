"""The machine: a real daemon, in any order asked, killed, stopped and started again. `test_daemon_machine` runs it."""

import json
import os
import shutil
import tempfile
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.crash import invariants, process_list
from tests.crash.waiting_jobs import EverySecond, OnEvent
from tests.engine import sample_handlers
from tests.harness import Process, RpcError
from tests.stateful.promises import COMMANDS, HANDLERS, SAID, Promises, spec_of

SEED = int(os.environ.get("SEMANTICA_SEED") or SystemRandom().randrange(2**32))
SLOTS = 4

KINDS = [*COMMANDS, *COMMANDS, *HANDLERS]
WAYS = ["killed", "killed", "stopped", "supervisor", "both"]
ON_RUNNING = ["finish", "cancel"]
MODES = ["append", "append", "keep"]
SPEC: dict[str, list[Any]] = {
    "subject_key": [None, None, "a", "b"],
    "on_running": ON_RUNNING,
    "queue": ["default", "default", "narrow", "extra"],
    "max_attempts": [0, 1, 2, 3],
    "on_interrupt": ["fail", "requeue"],
    "idempotency_key": [None, None, None, "k", "l", "m"],
    "environment": [None, None, {"WORLD": "1"}, {"WORLD": "2", "API_TOKEN": "x"}],
}
QUEUES = ["narrow", "extra", "unknown"]
ALL_SLOTS = [0, 1, 2]
KEYS = ["e", "f"]
WAITS: list[dict[str, Any]] = [
    {"type": "CONDITION", "wait_for_event": "e"},
    {"type": "CONDITION", "conditions": {"e": "1", "f": "1"}},
    {"type": "CONDITION", "wait_for_idle": True},
    {"type": "AFTER", "delay_ms": 50, "wait_for_idle": True, "wait_for_event": "f"},
    {"type": "AFTER", "delay_ms": 100},
]
kinds = st.sampled_from(KINDS)
waits = st.sampled_from(WAITS)
picks = st.integers(0, 10**6)
specs = st.fixed_dictionaries({field: st.sampled_from(values) for field, values in SPEC.items()})


class DaemonMachine(RuleBasedStateMachine):
    @initialize(first=st.lists(st.tuples(kinds, specs), min_size=3, max_size=6))
    def open(self, first: list[tuple[str, dict[str, Any]]]) -> None:
        """With some work already, of which no walk should be without."""
        self.home = Path(tempfile.mkdtemp(prefix="sem-"))
        self.promises = Promises()
        self.failed = False
        self.paused = False
        self.the_machine_is(idle=False)
        self.process = Process(self.home).start()
        self.seconds = EverySecond(self.process, by_interval=len(first) % 2 == 1 or SEED % 2 == 1)
        self.on_event = OnEvent(self.process, KEYS[0])
        self.all_slots = SLOTS
        for kind, chosen in first:
            self.enqueues(kind=kind, chosen=chosen)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Remembers that it failed, so that there is something to look at afterwards."""
        try:
            yield
        except BaseException:
            self.failed = True
            print(f"SEMANTICA_SEED={SEED}, the home is kept: {self.home}\n{self.process.stderr()}")
            raise

    def the_machine_is(self, idle: bool) -> None:
        """As the next daemon will find it."""
        machine = f'[machine]\nidle = "{"always" if idle else "never"}"\npower = "mains"\n'
        text = sample_handlers.config(SLOTS, 1000, f"[queues.narrow]\nslots = 1\n{machine}")
        (self.home / "config.toml").write_text(text)
        self.will_be_idle = idle

    def call(self, method: str, /, **params: Any) -> Any:
        return self.process.call(method, **params)

    def job(self, pick: int) -> str:
        """Mostly one of those that are not known to have ended."""
        live = [job_id for job_id in self.promises.jobs if job_id not in self.promises.ended]
        chosen = list(self.promises.jobs) if pick % 4 == 0 or not live else live
        return chosen[pick % len(chosen)]

    def see(self, job_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.call("job.get", job_id=job_id)
        self.promises.saw(shown)
        return shown

    def keyed(self, kind: str, chosen: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """A key that is known stands for what it was first given for."""
        known = self.promises.keys.get(chosen["idempotency_key"])
        if known is None:
            return kind, spec_of(kind, chosen)
        return self.promises.jobs[known].kind, self.promises.jobs[known].spec

    @rule(kind=kinds, chosen=specs)
    def enqueues(self, kind: str, chosen: dict[str, Any]) -> None:
        with self.step():
            kind, spec = self.keyed(kind, chosen)
            self.promises.acknowledged(kind, spec, self.call("job.enqueue", **spec))

    @rule(kind=kinds, on_running=st.sampled_from(ON_RUNNING))
    def saves_again(self, kind: str, on_running: str) -> None:
        """The newest wins, in one busy lane of commands or of a handler."""
        with self.step():
            chosen = {"subject_key": "busy", "on_running": on_running, "max_attempts": 2, "on_interrupt": "requeue"}
            spec = spec_of(kind, chosen)
            self.promises.acknowledged(kind, spec, self.call("job.enqueue", **spec))

    @rule(kind=kinds, mode=st.sampled_from(MODES))
    def joins_a_line(self, kind: str, mode: str) -> None:
        """append: all of them run, in the order in which they came, whatever happens between two attempts. keep: what
        waits already is the job."""
        with self.step():
            spec = spec_of(kind, {"subject_key": mode, "supersede": mode, "max_attempts": 2, "on_interrupt": "requeue"})
            self.promises.acknowledged(kind, spec, self.call("job.enqueue", **spec))

    @rule(kind=kinds, schedule=waits)
    def enqueues_to_wait(self, kind: str, schedule: dict[str, Any]) -> None:
        with self.step():
            spec = spec_of(kind, {"max_attempts": 2, "on_interrupt": "requeue", "schedule": schedule})
            self.promises.acknowledged(kind, spec, self.call("job.enqueue", **spec))

    @precondition(lambda self: self.promises.jobs)
    @rule(kind=kinds, pick=picks)
    def enqueues_a_child(self, kind: str, pick: int) -> None:
        """Of one or two jobs, which may end at any moment."""
        with self.step():
            parents = [self.job(pick), self.job(pick // 7)][: 1 + pick % 2]
            spec = spec_of(kind, {"max_attempts": 2, "on_interrupt": "requeue", "parents": parents})
            try:
                ack = self.call("job.enqueue", **spec)
            except RpcError as refused:
                self.promises.not_added(refused.data["code"], self.see(refused.data["job_id"]))
            else:
                self.promises.acknowledged(kind, spec, ack)
                assert self.see(ack["job_id"])["parents"] == list(dict.fromkeys(parents))

    @rule(key=st.sampled_from(KEYS))
    def emits(self, key: str) -> None:
        with self.step():
            told = self.call("event.emit", key=key, value="1")
            self.promises.emitted(key, told["matched"])
            self.on_event.emitted(key, told.get("fired", []))

    @precondition(lambda self: self.promises.jobs)
    @rule(pick=picks, force=st.booleans())
    def retries(self, pick: int, force: bool) -> None:
        """Mostly a job that is known to have ended."""
        with self.step():
            ended = list(self.promises.ended)
            job_id = ended[pick % len(ended)] if ended and pick % 4 else self.job(pick)
            try:
                ack = self.call("job.retry", job_id=job_id, force=force)
            except RpcError as refused:
                self.promises.not_retried(job_id, force, refused.data["code"])
            else:
                self.promises.retried(job_id, ack)
                assert self.see(job_id)["finished_at"] is not None
                self.see(ack["job_id"])

    @rule(slots=st.sampled_from(ALL_SLOTS))
    def sets_the_slots_of_all_queues(self, slots: int) -> None:
        with self.step():
            self.all_slots = slots or SLOTS
            assert self.call("queue.configure", slots=slots)["slots"] == self.all_slots

    @rule(queue=st.sampled_from(QUEUES))
    def deletes_a_queue(self, queue: str) -> None:
        """Only one without live jobs."""
        with self.step():
            of_it = [one for one, promise in self.promises.jobs.items() if promise.spec.get("queue") == queue]
            live = [one for one in of_it if one not in self.promises.ended]
            try:
                self.call("queue.delete", queue=queue)
                code = None
            except RpcError as refused:
                code = refused.data["code"]
            if code is None:
                assert all(self.see(job_id)["finished_at"] is not None for job_id in of_it)
            else:
                assert code == "E_QUEUE_IN_USE" if live else code == "E_QUEUE_NOT_FOUND"

    @precondition(lambda self: self.promises.jobs)
    @rule(pick=picks, killed=st.booleans())
    def cancels(self, pick: int, killed: bool) -> None:
        """Once accepted it holds, also when it is killed before it has come to that."""
        with self.step():
            running = [job["job_id"] for job in self.call("job.list", state=["RUNNING"])["items"]]
            job_id = running[pick % len(running)] if killed and running else self.job(pick)
            told = self.call("job.cancel", job_id=job_id, wait_ms=0 if killed else pick % 2 * 2000)
            if job_id not in told["unchanged"]:
                self.promises.cancelled.add(job_id)
            if killed:
                self.is_disturbed(way="killed")
            elif job_id in told["unchanged"]:
                assert self.see(job_id)["finished_at"] is not None

    @precondition(lambda self: self.promises.jobs)
    @rule(pick=picks, ms=st.sampled_from([0, 20, 200]))
    def waits(self, pick: int, ms: int) -> None:
        with self.step():
            waited = self.call("job.wait", job_id=self.job(pick), timeout_ms=ms)
            self.promises.saw(waited["job"])
            assert waited["finished"] is (waited["job"]["finished_at"] is not None)

    @rule()
    def pauses_or_resumes(self) -> None:
        with self.step():
            self.paused = not self.paused
            self.call("queue.pause" if self.paused else "queue.resume")

    @precondition(lambda self: self.promises.jobs)
    @rule(pick=picks)
    def reads_a_log(self, pick: int) -> None:
        """A handler has none, which is no error either."""
        with self.step():
            self.read_log(self.job(pick))

    def read_log(self, job_id: str) -> None:
        told = self.call("job.logs", job_id=job_id, timeout_ms=50)
        text = told["chunk"].encode() if told["encoding"] == "utf-8" else b64decode(told["chunk"])
        assert (len(text), sum(length for _, length in told["streams"])) == (told["next_offset"],) * 2
        if told["run_id"] is not None:
            self.promises.read(told["run_id"], text)
        said = SAID.get(self.promises.jobs[job_id].kind)
        if told["state"] == "DONE" and said is not None:
            assert told["eof"]
            assert by_stream(text, told["streams"]) == said

    @rule(way=st.sampled_from(WAYS))
    def is_disturbed(self, way: str) -> None:
        with self.step():
            self.the_machine_is(idle=self.promises.disturbances % 2 == 0)
            self.promises.disturbances += 1
            if way in ("supervisor", "both"):
                process_list.kill(process_list.supervisors(self.home))
            if way in ("killed", "both"):
                self.process.kill()
            if way == "stopped":
                self.stop()
            if way != "supervisor":
                self.starts_again()

    def stop(self) -> None:
        assert self.process.stop() == 0
        process_list.check_empty(self.home)
        with invariants.reading(self.home) as connection:
            assert connection.execute("SELECT id FROM jobs WHERE state = 'RUNNING'").fetchall() == []

    @precondition(lambda self: len(self.promises.jobs) % 5 == 4)
    @rule(kind=kinds)
    def is_killed_before_it_answers(self, kind: str) -> None:
        """Nobody knows whether it is stored; asking again gives one job."""
        with self.step():
            key = f"unanswered-{len(self.promises.jobs)}"
            spec = spec_of(kind, {"idempotency_key": key, "max_attempts": 1, "on_interrupt": "fail"})
            request = {"jsonrpc": "2.0", "id": 1, "method": "job.enqueue", "params": spec}
            with self.process.connect() as connection:
                connection.sendall(json.dumps(request).encode() + b"\n")
                self.process.kill()
            self.starts_again()
            self.promises.acknowledged(kind, spec, self.call("job.enqueue", **spec))
            self.promises.disturbances += 1

    def starts_again(self) -> None:
        """What waits for an idle machine may run from now on, or must not."""
        self.promises.is_fit(self.will_be_idle)
        self.process.start()
        self.seconds.check(self.home)
        self.on_event.check(self.home)
        invariants.check(self.home)
        invariants.check_environments_are_used(self.home)
        process_list.check(self.home)
        queues = self.call("queue.list")["queues"]
        assert all(queue["paused"] is self.paused for queue in queues)
        assert next(queue["slots"] for queue in queues if queue["queue"] == "default") == self.all_slots

    @invariant()
    def the_database_is_sound(self) -> None:
        with self.step():
            process_list.check(self.home)
            invariants.check(self.home)
            running = [queue["running"] for queue in self.call("queue.list")["queues"]]
            assert sum(running) <= SLOTS

    @invariant()
    def no_two_runs_of_a_job_overlap(self) -> None:
        with self.step():
            runs = defaultdict(set)
            for found in process_list.processes(self.home):
                runs[found.job_id].add(found.run_id)
            assert all(len(alive) == 1 for alive in runs.values()), runs

    @invariant()
    def the_stream_is_what_was_told_and_more(self) -> None:
        with self.step():
            since = SEED % (len(self.promises.events) + 1)
            told: list[dict[str, Any]] = []
            while page := self.call("event.list", since=since + len(told), limit=1000)["events"]:
                told += page
            self.promises.replayed(since, told)

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        with self.step():
            with invariants.reading(self.home) as connection:
                stored = {row[0] for row in connection.execute("SELECT id FROM jobs WHERE schedule_id IS NULL")}
            assert stored == set(self.promises.jobs)

    def teardown(self) -> None:
        if not hasattr(self, "process"):
            return
        try:
            if not self.failed:
                with self.step():
                    self.settles()
        finally:
            self.process.__exit__()
            process_list.kill([found.pid for found in process_list.processes(self.home)])
        if not self.failed:
            shutil.rmtree(self.home)

    def settles(self) -> None:
        """Everything comes to its end; then it is stopped, and nothing is left of it."""
        self.call("queue.resume")
        self.sets_the_slots_of_all_queues(slots=0)
        self.paused = False
        if not self.promises.is_idle and any("schedule" in one.spec for one in self.promises.jobs.values()):
            self.the_machine_is(idle=True)
            self.promises.disturbances += 1
            self.stop()
            self.starts_again()
        for key in KEYS:
            self.emits(key=key)
        self.seconds.stop(self.process)
        for job_id, promise in self.promises.jobs.items():
            if promise.kind == "long":
                told = self.call("job.cancel", job_id=job_id)
                self.promises.cancelled.update(told["cancelled"] + told["cancelling"])
        for job_id, promise in self.promises.jobs.items():
            waited = self.call("job.wait", job_id=job_id, timeout_ms=15_000)
            assert waited["finished"], (promise, waited["job"])
            self.see(job_id)
            self.read_log(job_id)
        assert process_list.processes(self.home) == []
        self.the_database_is_sound()
        self.the_stream_is_what_was_told_and_more()
        self.stop()
        self.on_event.check(self.home)
        invariants.check(self.home)
        states = Counter(ended[0] for ended in self.promises.ended.values())
        print(f"{self.promises.disturbances} disturbances, {dict(states)}")


def by_stream(text: bytes, streams: list[list[Any]]) -> dict[str, str]:
    said: dict[str, str] = {}
    for name, length in streams:
        said[name] = said.get(name, "") + text[:length].decode()
        text = text[length:]
    return said
