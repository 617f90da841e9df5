"""A power loss takes the newest commits: no sequence number of the event stream then means two events.

The disk as it was is a copy of the database; the other boot is the boot id that it was open in.
"""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

from tests.harness import Process

FILES = ("meta.db", "meta.db-wal")


def enqueue(process: Process) -> int:
    """Returns the newest sequence number after it."""
    job_id = process.call("job.enqueue", job_type="semantica.noop")["job_id"]
    process.call("job.wait", job_id=job_id)
    return int(process.call("event.list", job_id=job_id)["events"][-1]["sequence"])


def stream(process: Process, **params: Any) -> tuple[str, Any]:
    page = process.call("event.list", **params)
    return page["epoch"], page["gap"]


def copy(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in FILES:
        if (source / name).exists():
            shutil.copy(source / name, target / name)
        else:
            (target / name).unlink(missing_ok=True)


def was_open_in_another_boot(home: Path) -> None:
    connection = sqlite3.connect(home / "meta.db")
    connection.execute("UPDATE facts SET value = 'another' WHERE name = 'opened_in_boot'")
    connection.commit()
    connection.close()


def test_commits_that_a_power_loss_has_taken_are_a_gap_of_the_stream(home: Path, tmp_path: Path) -> None:
    with Process(home).start() as process:
        enqueue(process)
        copy(home, tmp_path / "disk")
        seen = enqueue(process)
        epoch, _ = stream(process)
        process.kill()
        (home / "meta.db-shm").unlink()
        copy(tmp_path / "disk", home)
        was_open_in_another_boot(home)
        process.start()
        while enqueue(process) <= seen:
            pass
        new_epoch, gap = stream(process, since=seen, epoch=epoch)
        assert new_epoch != epoch
        assert gap == {"from": 0, "to": 0, "epoch": new_epoch}, "all that is there is news"
        assert "commits_may_be_lost" in process.stderr()


def test_after_a_kill_in_the_same_boot_the_stream_goes_on(home: Path) -> None:
    with Process(home).start() as process:
        seen = enqueue(process)
        epoch, _ = stream(process)
        process.kill()
        process.start()
        assert stream(process, since=seen, epoch=epoch) == (epoch, None)


def test_a_database_that_was_closed_has_lost_nothing_by_a_reboot(home: Path) -> None:
    with Process(home).start() as process:
        seen = enqueue(process)
        epoch, _ = stream(process)
        assert process.stop() == 0
        was_open_in_another_boot(home)
        process.start()
        assert stream(process, since=seen, epoch=epoch) == (epoch, None)
