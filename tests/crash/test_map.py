"""`semantica map` while the daemon, its supervisor and the command itself are killed: each item ends DONE, runs once
more at most for each kill that it was running in, and never after it was DONE. `scripts/soak` takes 10,000 items."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.client.client import Client
from semantica_daemon.paths import find
from tests.cli.command_line import Line, Result, StartedCommand
from tests.crash.test_kill_loop import kill_daemon, kill_everything, kill_supervisor_last
from tests.harness import Process
from tests.homes import migrated_home

ITEMS = 10_000 if "SEMANTICA_SOAK" in os.environ else 400
SLOTS = 4
WAYS: list[Callable[[Process], None]] = [kill_daemon, kill_supervisor_last, kill_everything]
# One write for a line, so that a kill never leaves half of it.
COMMAND = ["--", "sh", "-c", "echo $1 >> runs; echo $1", "sh", "{}"]


@pytest.fixture
def process() -> Iterator[Process]:
    with migrated_home() as home:
        (home / "config.toml").write_text(f"[daemon]\nmax_slots = {SLOTS}\n")
        with Process(home) as process:
            yield process.start()


@pytest.fixture
def line(process: Process, tmp_path: Path) -> Line:
    (tmp_path / "items").write_text("".join(f"{number}\n" for number in range(ITEMS)))
    return Line(process.home, tmp_path)


def until_done(home: Path, count: int) -> None:
    """Until so many jobs have ended."""
    with Client(find({"SEMANTICA_HOME": str(home)})) as client:
        ends = client.subscribe(since=0, event_types=["job.done"])
        for _ in range(count):
            next(ends)


def check_runs(process: Process, line: Line, kills: int) -> None:
    """Of each job: the last run is DONE, all others were interrupted by a kill, and no run is missing in the file."""
    lines = Counter((line.cwd / "runs").read_text().split())
    more = 0
    jobs = list_jobs(process)
    assert len(jobs) == ITEMS
    for job in jobs:
        count = job["run_count"]
        assert job["state"] == "DONE"
        assert 1 <= lines[job["subject_key"]] <= count <= 1 + kills
        if count > 1:
            statuses = [run["status"] for run in process.call("job.get", job_id=job["job_id"])["runs"]]
            assert statuses == ["INTERRUPTED"] * (count - 1) + ["DONE"]
            more += count - 1
    assert more <= kills * SLOTS


def list_jobs(process: Process) -> list[Any]:
    found: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = process.call("job.list", limit=200, sort="oldest", **cursor)
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


@pytest.mark.timeout(900 if "SEMANTICA_SOAK" in os.environ else 120)
def test_three_kills_of_the_daemon_cost_the_running_items_one_run_each(process: Process, line: Line) -> None:
    begun = line.start("--no-autostart", "map", "-a", "items", *COMMAND)
    for number, kill in enumerate(WAYS, 1):
        until_done(process.home, number * ITEMS // 5)
        kill(process)
        process.start()
    result = finished(begun)
    assert result.code == 0, result.err
    assert Counter(result.out.split()) == Counter(map(str, range(ITEMS))), "the output of each item is printed once"
    check_runs(process, line, len(WAYS))


def finished(begun: StartedCommand) -> Result:
    out, err = begun.process.communicate(timeout=800)
    return Result(begun.process.returncode, out.decode(), err.decode())


@pytest.mark.timeout(900 if "SEMANTICA_SOAK" in os.environ else 120)
def test_a_command_that_is_killed_too_goes_on_with_resume(process: Process, line: Line) -> None:
    """Killed while it adds the items, and while they run; before, after and together with the daemon."""
    shown = ""
    for number, kill in enumerate(WAYS, 1):
        begun = line.start("--no-autostart", "map", "--resume", "--name", "killed", "-a", "items", *COMMAND)
        until_done(process.home, (number - 1) * ITEMS // 5 + 1)
        if number % 2:
            begun.process.kill()
            kill(process)
        else:
            kill(process)
            begun.process.kill()
        shown += begun.result().out
        process.start()
    result = finished(line.start("--no-autostart", "map", "--resume", "--name", "killed", "-a", "items", *COMMAND))
    assert result.code == 0, result.err
    assert f"{ITEMS} done" in result.err
    assert set((shown + result.out).split()) == set(map(str, range(ITEMS)))
    check_runs(process, line, len(WAYS))
