"""The daemon killed at each of its named points, once: what was promised before holds after the next start."""

import json
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon import failpoints
from tests.crash import handlers, invariants, process_list
from tests.crash.journal import Journal
from tests.harness import PATIENCE_S, Process

# Far enough into the work that some of it is done; a commit is passed a few times at every start.
PASSAGE = {"before_commit": 12, "after_commit_before_reply": 12, "during_migration": 20, "during_checkpoint": 1}


NOT_PASSED = ("during_migration", "during_backup")  # by ordinary work
POINTS = [(name, kind) for name in failpoints.NAMES for kind in ("handler", "command") if name not in NOT_PASSED]
POINTS.remove(("after_spawn_before_pid_commit", "handler"))


class Work:
    """Calls with a key each, until the daemon dies; then once more, to a daemon without the failpoint.

    With a journal they are for commands that write it, else for a handler."""

    def __init__(self, home: Path, journal: Journal | None = None, **spec: Any) -> None:
        self.home = home
        self.journal = journal
        self.spec = spec
        self.acks: dict[str, dict[str, Any]] = {}
        self.unanswered = ""

    def until_it_dies(self, process: Process, calls: int = 20) -> None:
        """Each point is reached after few calls; the checkpoint of the next second, while the daemon works on them."""
        assert process.process is not None
        with suppress(OSError, EOFError):
            for number in range(calls):
                self.unanswered = f"key-{number}"
                self.acks[self.unanswered] = self.enqueue(process, self.unanswered)
        assert process.process.wait(PATIENCE_S) == -9, process.stderr()

    def enqueue(self, process: Process, key: str) -> dict[str, Any]:
        spec = {"job_type": "semantica.noop", "idempotency_key": key, **self.spec}
        if self.journal is not None:
            spec |= {"job_type": "command", "payload": self.journal.command("escape", 0, key), "grace_ms": 100}
        found: dict[str, Any] = process.call("job.enqueue", **spec)
        return found

    def again(self) -> dict[str, dict[str, Any]]:
        """Every call once more, after a restart: the answers. All jobs come to their end."""
        with Process(self.home).start() as process:
            invariants.check(self.home)
            process.call("queue.resume")
            answers = {key: self.enqueue(process, key) for key in [*self.acks, self.unanswered]}
            for ack in answers.values():
                assert process.call("job.wait", job_id=ack["job_id"])["finished"]
            invariants.check(self.home)
            if self.journal is not None:
                self.journal.check(self.home, ended=True)
            assert process.stop() == 0
        process_list.check_empty(self.home)
        return answers


@pytest.mark.parametrize(("name", "kind"), POINTS)
def test_killed_at_each_point_nothing_acknowledged_is_lost_or_doubled(
    home: Path, journal: Journal, name: str, kind: str
) -> None:
    work = Work(home, journal if kind == "command" else None, durable=name == "during_sync")
    passage = PASSAGE.get(name, 3)
    with Process(home, SEMANTICA_FAILPOINT=f"{name}:kill:{passage}").start() as process:
        work.until_it_dies(process)
    answers = work.again()
    for key, ack in work.acks.items():
        assert (answers[key]["job_id"], answers[key]["existing"]) == (ack["job_id"], True)
    with invariants.reading(home) as connection:
        (jobs,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
    assert jobs == len(answers)


@pytest.mark.parametrize(("name", "stored"), [("before_commit", False), ("after_commit_before_reply", True)])
def test_an_unanswered_call_is_stored_or_not_and_asking_again_gives_one_job(
    home: Path, name: str, stored: bool
) -> None:
    """With nothing running, the commit that is hit is the caller's own."""
    with Process(home).start() as process:
        process.call("queue.pause")
        process.stop()
    work = Work(home)
    with Process(home, SEMANTICA_FAILPOINT=f"{name}:kill:12").start() as process:
        work.until_it_dies(process)
    assert work.again()[work.unanswered]["existing"] is stored


def test_a_claimed_run_that_never_began_is_known_as_interrupted(home: Path) -> None:
    """Between the commit of the claim and the first step of the handler."""
    work = Work(home, max_attempts=1)
    with Process(home, SEMANTICA_FAILPOINT="after_claim_before_start:kill:3").start() as process:
        work.until_it_dies(process, calls=5)
    with Process(home).start() as process:
        failed = process.call("job.list", state=["FAILED"])["items"]
        assert [job["error"]["code"] for job in failed] == ["E_ENGINE_CRASH"]
        assert [job["run_count"] for job in failed] == [1]


def test_a_run_that_ended_but_was_not_written_is_tried_again_only_if_it_may(home: Path) -> None:
    for attempts, state in ((1, "FAILED"), (2, "DONE")):
        folder = home / str(attempts)
        work = Work(folder, max_attempts=attempts, backoff_base_ms=1)
        with Process(folder, SEMANTICA_FAILPOINT="after_run_before_finish:kill:2").start() as process:
            work.until_it_dies(process, calls=5)
        with Process(folder).start() as process:
            told = process.call("event.list", event_types=["daemon.recovered"], limit=1000)["events"]
            (job_id,) = told[0]["payload"]["jobs"]
            job = process.call("job.wait", job_id=job_id)["job"]
        assert (job["state"], job["run_count"]) == (state, attempts)


def test_a_claimed_command_that_never_began_is_known_as_interrupted(home: Path, journal: Journal) -> None:
    """Between the commit of the claim and the order to the supervisor: no process, no pid, and no job.started."""
    once = Work(home, journal, max_attempts=1)
    with Process(home, SEMANTICA_FAILPOINT="after_claim_before_start:kill:1").start() as process:
        once.until_it_dies(process, calls=5)
    assert journal.begun() == []
    with Process(home).start() as process:
        (job,) = process.call("job.list")["items"]
        assert (job["state"], job["error"]["code"], job["run_count"]) == ("FAILED", "E_ENGINE_CRASH", 1)
        assert process.call("event.list", event_types=["job.started"])["events"] == []
        again = Work(home, journal, on_interrupt="requeue").enqueue(process, "another")
        assert process.call("job.wait", job_id=again["job_id"])["job"]["state"] == "DONE"
    assert len(journal.begun()) == 1


@pytest.mark.parametrize(("spec", "state", "runs"), [
    ({"max_attempts": 1}, "FAILED", 1),
    ({"max_attempts": 2, "backoff_base_ms": 1}, "DONE", 2),
    ({"max_attempts": 1, "on_interrupt": "requeue"}, "DONE", 2),
])  # fmt: skip
def test_a_process_whose_pid_was_never_written_is_gone_before_the_next_run(
    home: Path, journal: Journal, spec: dict[str, Any], state: str, runs: int
) -> None:
    work = Work(home, journal, **spec)
    with Process(home, SEMANTICA_FAILPOINT="after_spawn_before_pid_commit:kill:1").start() as process:
        work.until_it_dies(process, calls=5)
    assert set(unwritten(home)) == {None}
    with Process(home).start() as process:
        job = process.call("job.wait", job_id=work.acks["key-0"]["job_id"])["job"]
        assert (job["state"], job["run_count"]) == (state, runs)
        started = process.call("event.list", job_id=job["job_id"], event_types=["job.started"])["events"]
        assert len(started) == runs - 1, "the first was never told"
        process_list.check(home)
    journal.check(home, ended=False)


def unwritten(home: Path) -> list[Any]:
    """The pids of what was running."""
    with invariants.reading(home) as connection:
        return [row[0] for row in connection.execute("SELECT pid FROM runs WHERE status = 'RUNNING'")]


def test_it_is_found_by_its_mark_when_the_supervisor_is_dead_too(home: Path, journal: Journal) -> None:
    """The daemon hears nothing more of what it has just ordered: a handler keeps it from listening."""
    (home / "config.toml").write_text(handlers.CONFIG)
    with Process(home).start() as process:
        first = Work(home, journal).enqueue(process, "so that there is a supervisor")
        assert process.call("job.wait", job_id=first["job_id"])["job"]["state"] == "DONE"
        spec = {"max_attempts": 2, "backoff_base_ms": 1, "payload": journal.command("escape", 400, "unheard")}
        jobs = [{"job_type": "command", **spec}, {"job_type": "block", "payload": {"ms": 30_000}}]
        with process.connect() as connection:
            request = {"jsonrpc": "2.0", "id": 1, "method": "job.enqueue_many", "params": {"jobs": jobs}}
            connection.sendall(json.dumps(request).encode() + b"\n")
            journal.until("begin", processes=2)
            process_list.kill(process_list.supervisors(home))
            process.kill()
    assert unwritten(home) == [None, None]
    assert process_list.processes(home), "orphans, that nobody but init looks after"
    with Process(home).start() as process:
        (job,) = process.call("job.list", job_type=["command"], sort="newest", limit=1)["items"]
        job = process.call("job.wait", job_id=job["job_id"])["job"]
        assert (job["state"], job["run_count"]) == ("DONE", 2)
        invariants.check(home)
        process_list.check(home)
    journal.check(home, ended=True)


def test_a_command_that_ended_but_was_not_written_runs_again_only_if_it_may(home: Path, journal: Journal) -> None:
    for attempts, state in ((1, "FAILED"), (2, "DONE")):
        folder = home / str(attempts)
        work = Work(folder, journal, max_attempts=attempts, backoff_base_ms=1)
        with Process(folder, SEMANTICA_FAILPOINT="after_run_before_finish:kill:1").start() as process:
            work.until_it_dies(process, calls=5)
        job_id = next(line.job_id for line in reversed(journal.lines()) if line.word == "end")
        with Process(folder).start() as process:
            job = process.call("job.wait", job_id=job_id)["job"]
        runs = [line for line in journal.lines() if (line.word, line.job_id) == ("begin", job["job_id"])]
        assert (job["state"], job["run_count"], len(runs)) == (state, attempts, attempts)


@pytest.mark.parametrize("passage", [1, 20, 60])
def test_killed_during_a_migration_the_next_start_goes_on(empty_home: Path, passage: int) -> None:
    killed = Process(empty_home, SEMANTICA_FAILPOINT=f"during_migration:kill:{passage}").start(ready=False)
    assert killed.process is not None
    assert killed.process.wait(40) == -9
    with Process(empty_home).start() as process:
        assert process.call("job.wait", job_id=Work(empty_home).enqueue(process, "a")["job_id"])["finished"]
        with sqlite3.connect(empty_home / "meta.db") as connection:
            versions = [row[0] for row in connection.execute("SELECT version FROM schema_version ORDER BY version")]
        connection.close()
    assert versions == list(range(1, len(versions) + 1))


def test_a_failpoint_that_does_not_exist_is_refused(home: Path) -> None:
    process = Process(home, SEMANTICA_FAILPOINT="before_comit:kill").start(ready=False)
    assert process.process is not None
    assert process.process.wait(40) not in (0, None)
    assert "before_comit" in process.stderr()
