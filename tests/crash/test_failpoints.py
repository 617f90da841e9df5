"""The daemon killed at each of its named points, once: what was promised before holds after the next start."""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon import failpoints
from tests.crash import invariants
from tests.harness import Process

# Far enough into the work that some of it is done; a commit is passed a few times at every start.
PASSAGE = {"before_commit": 12, "after_commit_before_reply": 12, "during_migration": 20, "during_checkpoint": 1}


class Work:
    """Calls with a key each, until the daemon dies; then once more, to a daemon without the failpoint."""

    def __init__(self, home: Path, **spec: Any) -> None:
        self.home = home
        self.spec = spec
        self.acks: dict[str, dict[str, Any]] = {}
        self.unanswered = ""

    def until_it_dies(self, process: Process) -> None:
        assert process.process is not None
        with suppress(OSError, EOFError):
            for number in range(200):
                self.unanswered = f"key-{number}"
                self.acks[self.unanswered] = self.ask(process, self.unanswered)
        assert process.process.wait(10) == -9, process.stderr()

    def ask(self, process: Process, key: str) -> dict[str, Any]:
        spec = {"job_type": "semantica.noop", "idempotency_key": key, **self.spec}
        found: dict[str, Any] = process.call("job.enqueue", **spec)
        return found

    def again(self) -> dict[str, dict[str, Any]]:
        """Every call once more, after a restart: the answers. All jobs come to their end."""
        with Process(self.home).start() as process:
            invariants.check(self.home)
            process.call("queue.resume")
            answers = {key: self.ask(process, key) for key in [*self.acks, self.unanswered]}
            for ack in answers.values():
                assert process.call("job.wait", job_id=ack["job_id"])["finished"]
            invariants.check(self.home)
            assert process.stop() == 0
        return answers


@pytest.mark.parametrize("name", [name for name in failpoints.NAMES if name != "during_migration"])
def test_killed_at_each_point_nothing_acknowledged_is_lost_or_doubled(home: Path, name: str) -> None:
    work = Work(home, durable=name == "during_sync")
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
        work.until_it_dies(process)
    with Process(home).start() as process:
        failed = process.call("job.list", state=["FAILED"])["items"]
        assert [job["error"]["code"] for job in failed] == ["E_ENGINE_CRASH"]
        assert [job["run_count"] for job in failed] == [1]


def test_a_run_that_ended_but_was_not_written_is_tried_again_only_if_it_may(home: Path) -> None:
    for attempts, state in ((1, "FAILED"), (2, "DONE")):
        folder = home / str(attempts)
        work = Work(folder, max_attempts=attempts, backoff_base_ms=1)
        with Process(folder, SEMANTICA_FAILPOINT="after_run_before_finish:kill:2").start() as process:
            work.until_it_dies(process)
        with Process(folder).start() as process:
            told = process.call("event.list", event_types=["daemon.recovered"], limit=1000)["events"]
            (job_id,) = told[0]["payload"]["jobs"]
            job = process.call("job.wait", job_id=job_id)["job"]
        assert (job["state"], job["run_count"]) == (state, attempts)


@pytest.mark.parametrize("passage", [1, 20, 60])
def test_killed_during_a_migration_the_next_start_goes_on(home: Path, passage: int) -> None:
    killed = Process(home, SEMANTICA_FAILPOINT=f"during_migration:kill:{passage}").start(ready=False)
    assert killed.process is not None
    assert killed.process.wait(10) == -9
    with Process(home).start() as process:
        assert process.call("job.wait", job_id=Work(home).ask(process, "a")["job_id"])["finished"]
        with sqlite3.connect(home / "meta.db") as connection:
            versions = [row[0] for row in connection.execute("SELECT version FROM schema_version ORDER BY version")]
        connection.close()
    assert versions == list(range(1, len(versions) + 1))


def test_a_failpoint_that_does_not_exist_is_refused(home: Path) -> None:
    process = Process(home, SEMANTICA_FAILPOINT="before_comit:kill").start(ready=False)
    assert process.process is not None
    assert process.process.wait(10) not in (0, None)
    assert "before_comit" in process.stderr()
