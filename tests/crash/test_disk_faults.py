"""A disk that fails: the daemon never claims to know what it does not, and leaves when it cannot go on."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.commands import until
from tests.faults import Faults
from tests.harness import PATIENCE_S, Process, RpcError


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Faults:
    return Faults(tmp_path_factory.mktemp("faults"))


def daemon(home: Path, faults: Faults) -> Process:
    faults.switch_on()
    return Process(home, **faults.environment)


def exit_code(process: Process) -> int:
    assert process.process is not None
    return process.process.wait(PATIENCE_S)


def jobs(home: Path, tag: str) -> int:
    connection = sqlite3.connect(home / "meta.db")
    (count,) = connection.execute("SELECT count(*) FROM jobs WHERE user_tag = ?", (tag,)).fetchone()
    connection.close()
    return int(count)


def test_a_commit_whose_sync_fails_is_unknown_even_if_nothing_can_be_read_after_it(home: Path, faults: Faults) -> None:
    with daemon(home, faults).start() as process:
        process.call("queue.pause")
        faults.switch_on("sync-wal", "read-after-sync")
        with pytest.raises(RpcError) as refused:
            process.call("job.enqueue", job_type="semantica.noop", user_tag="may be there", durable=True)
        assert (refused.value.code, refused.value.data["code"]) == (5001, "E_OUTCOME_UNKNOWN")
        assert exit_code(process) == 70
        assert "nothing was changed" not in process.stderr()
    assert jobs(home, "may be there") == 1, "so that an answer of failure would have been a lie"


def test_the_command_line_reports_an_unknown_outcome_and_exits_with_70(home: Path, faults: Faults) -> None:
    with daemon(home, faults).start() as process:
        faults.switch_on("sync-wal", "read-after-sync")
        command = [sys.executable, "-m", "semantica_daemon.cli", "add", "--durable", "--", "true"]
        result = subprocess.run(command, env=process.environment, capture_output=True, text=True, check=False)
        assert (result.returncode, exit_code(process)) == (70, 70)
        assert "whether it holds is known after a restart" in result.stderr


async def test_a_failing_checkpoint_is_logged_degraded_and_stops_the_daemon_when_it_repeats(
    home: Path, faults: Faults
) -> None:
    with daemon(home, faults).start() as process:
        faults.switch_on("write-db")
        job_id = process.call("job.enqueue", job_type="semantica.noop")["job_id"]
        await until(lambda: process.call("admin.health")["status"] == "degraded")
        health = process.call("admin.health")
        assert "disk I/O error" in health["parts"]["writer"]["trouble"]
        assert exit_code(process) == 70
        assert process.stderr().count("checkpoint_failed") >= 3
    faults.switch_on()
    with process.start():
        assert process.call("job.get", job_id=job_id)["state"] == "DONE", "the WAL has it"


async def test_a_checkpoint_that_succeeds_again_leaves_no_trouble(home: Path, faults: Faults) -> None:
    with daemon(home, faults).start() as process:
        faults.switch_on("write-db")
        process.call("job.enqueue", job_type="semantica.noop")
        await until(lambda: process.call("admin.health")["status"] == "degraded")
        faults.switch_on()
        await until(lambda: process.call("admin.health")["status"] == "ready")
        assert process.stop() == 0
