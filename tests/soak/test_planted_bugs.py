"""Each checker of scripts/soak finds the bug that it is there for, and finds nothing in a daemon without it."""

import time
from pathlib import Path
from random import Random

import pytest

from tests.crash import invariants
from tests.crash.journal import Journal
from tests.crash.load import Ledger
from tests.harness import PATIENCE_S, Process
from tests.soak.power import Acknowledged
from tests.soak.recorder import Recorder
from tests.soak.seen import Subscriber

NOOP = {"job_type": "semantica.noop"}
PLANTED = "tests.soak.planted"


def planted(home: Path, bug: str, **env: str) -> Process:
    return Process(home, PLANTED, SEMANTICA_PLANTED_BUG=bug, **env)


def until_the_first_pass_of_the_scheduler(process: Process) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while process.call("admin.health")["parts"]["scheduler"]["passes"] == 0:
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.mark.parametrize("bug", ["", "ack_before_commit"])
def test_a_reply_before_the_commit_is_a_lost_job(home: Path, bug: str) -> None:
    ledger = Ledger()
    with planted(home, bug) if bug else Process(home) as process:
        process.start()
        ledger.acknowledged(NOOP, process.call("job.enqueue", **NOOP, schedule={"type": "AFTER", "delay_ms": 600_000}))
        process.kill()
    if bug:
        with pytest.raises(AssertionError, match="1 acknowledged jobs are lost"):
            ledger.check(home, ended=False)
    else:
        ledger.check(home, ended=False)


def test_an_event_before_its_commit_is_one_that_is_not_stored(home: Path) -> None:
    with planted(home, "event_before_commit").start() as process:
        subscriber = Subscriber(process)
        subscriber.start()
        assert subscriber.listens.wait(PATIENCE_S)
        with process.connect() as connection:
            connection.sendall(
                b'{"jsonrpc": "2.0", "id": 1, "method": "job.enqueue",'
                b' "params": {"job_type": "semantica.noop", "durable": true}}\n'
            )
            give_up = time.monotonic() + PATIENCE_S
            while not any(event_type == "job.queued" for _, event_type, _ in list(subscriber.seen)):
                assert time.monotonic() < give_up
                time.sleep(0.001)
            process.kill()
        subscriber.ended.set()
    with pytest.raises(AssertionError, match="were sent and are not stored"):
        subscriber.check(home)


@pytest.mark.parametrize("bug", ["", "missing_fsync"])
def test_a_missing_sync_is_a_durable_job_that_a_power_loss_takes(home: Path, tmp_path: Path, bug: str) -> None:
    recorder, acknowledged = Recorder(tmp_path, home), Acknowledged()
    environment = recorder.environment
    with planted(home, bug, **environment) if bug else Process(home, **environment) as process:
        process.start()
        process.call("queue.pause")
        for _ in range(3):
            acknowledged.durable[process.call("job.enqueue", **NOOP, durable=True)["job_id"]] = recorder.position()
        operations = recorder.operations()
        process.kill()
    recorder.image(len(operations), home, None)
    if bug:
        with pytest.raises(AssertionError, match="jobs that were on the disk are lost"):
            acknowledged.check(home, operations)
    else:
        acknowledged.check(home, operations)
        recorder.image(len(operations), home, Random(1))
        acknowledged.check(home, operations)


def test_a_double_claim_is_a_run_that_began_twice(home: Path, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with planted(home, "double_claim").start() as process, journal.held():
        process.call("job.enqueue", job_type="command", payload=journal.command("plain", 0, "lane"))
        journal.until("begin", processes=2)
        with pytest.raises(AssertionError, match="a run began twice"):
            journal.check(home, ended=False)


def test_a_lost_wakeup_is_a_job_that_never_ends(home: Path) -> None:
    ledger = Ledger()
    with planted(home, "lost_wakeup").start() as process:
        until_the_first_pass_of_the_scheduler(process)  # a later first pass would find the job by itself
        spec = NOOP | {"schedule": {"type": "AFTER", "delay_ms": 20}}
        ledger.acknowledged(spec, process.call("job.enqueue", **spec))
        process.call("job.wait", job_id=next(iter(ledger.jobs)), timeout_ms=500)
        with pytest.raises(AssertionError, match="1 acknowledged jobs never ended"):
            ledger.check(home, ended=True)
        invariants.check(home)
        process.kill()
        process.start()  # which looks at all that is due
        assert process.call("job.wait", job_id=next(iter(ledger.jobs)), timeout_ms=PATIENCE_S * 1000)["finished"]
        ledger.check(home, ended=True)
