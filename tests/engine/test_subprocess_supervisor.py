"""The claim contract and the supervisor: what cannot be started waits, is given back and fails in the end;
a supervisor that dies or does not answer takes its runs with it, and the next job gets another one."""

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.commands import (
    WAIT,
    family,
    first_line,
    first_line_as_json,
    gone,
    output,
    run,
    sh,
    start,
    supervisors,
    until,
)
from tests.engine.stream import events, types_of
from tests.harness import Harness, ManualClock, daemon
from tests.supervisor.families import is_there, marked


@pytest.fixture
async def kept(home: Path) -> AsyncIterator[Harness]:
    """On a manual clock, with a supervisor that is there."""
    async with daemon(home, ManualClock(), "[daemon]\nmax_slots = 2\n") as harness:
        await run(harness, ["true"])
        await harness.advance(137)
        yield harness


@contextmanager
def short_of_descriptors(pid: int) -> Iterator[None]:
    """Its limit is what it has open by now: not one pipe more."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


async def refused(harness: Harness, times: int, jobs: int = 1) -> None:
    """Advances the clock second by second, each time after the supervisor has refused all jobs. The requests of the
    last second may still be under way."""
    for second in range(times):
        due = jobs * (2 if second == 29 else 1)  # then the limit of 30 s is near, too
        await until(lambda: waiting(harness) == due)  # noqa: B023 - it is over before the next one
        await harness.advance(1000)


def waiting(harness: Harness) -> int:
    """How many timers are due in a second to the ms; the daemon's own are not, for `kept` is a moment off them."""
    clock = harness.clock
    assert isinstance(clock, ManualClock)
    return sum(at == clock._now + 1000 and number not in clock._cancelled for at, number, _ in clock._timers)


async def test_what_cannot_be_started_now_waits_and_runs_as_soon_as_it_can(kept: Harness) -> None:
    (pid,) = supervisors(kept)
    with short_of_descriptors(pid):
        jobs = [await start(kept, sh("echo at last")) for _ in range(2)]
        await refused(kept, 3, jobs=2)
        assert [await kept.state(job_id) for job_id in jobs] == ["RUNNING", "RUNNING"]
        assert [await types_of(kept, job_id) for job_id in jobs] == [["job.queued"]] * 2
        assert (await kept.call("admin.health"))["status"] == "ready"
        await until(lambda: waiting(kept) == 2)  # the answers to the last requests have come
    await kept.advance(1000)
    for job_id in jobs:
        job = await kept.ended(job_id)
        assert (job["state"], job["run_count"], job["claim_attempts"]) == ("DONE", 1, 0)
        assert await output(kept, job_id) == "at last\n"
    assert supervisors(kept) == [pid]


async def test_after_thirty_seconds_the_claim_is_given_back_and_the_third_time_it_has_failed(kept: Harness) -> None:
    (pid,) = supervisors(kept)
    with short_of_descriptors(pid):
        job_id = await start(kept, ["true"], max_attempts=5)
        for number in (1, 2, 3):
            await refused(kept, 30)
            await until_claims(kept, job_id, number)
            job = await kept.job(job_id)
            assert job["state"] == ("FAILED" if number == 3 else "RUNNING")
    assert (job["error"]["code"], job["error"]["details"]) == ("E_SPAWN", {"errno": 24, "of": "command"})
    assert "30 s" in job["error"]["message"]
    assert [one["status"] for one in job["runs"]] == ["INTERRUPTED", "INTERRUPTED", "FAILED"]
    assert (await types_of(kept, job_id)).count("job.requeued") == 2
    assert "job.started" not in await types_of(kept, job_id)
    assert (await run(kept, ["true"]))["state"] == "DONE"


async def until_claims(harness: Harness, job_id: str, number: int) -> None:
    async with asyncio.timeout(5):
        while (await harness.job(job_id))["claim_attempts"] < number:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_what_waits_for_a_process_can_be_cancelled(kept: Harness) -> None:
    (pid,) = supervisors(kept)
    with short_of_descriptors(pid):
        job_id = await start(kept, ["true"])
        await refused(kept, 3)
        answer = await kept.call("job.cancel", job_id=job_id, wait_ms=5000)
        assert answer["cancelled"] == [job_id]
    assert await types_of(kept, job_id) == ["job.queued", "job.log", "job.cancelled"]


async def test_a_supervisor_that_does_not_answer_is_replaced_and_nothing_runs_twice(
    kept: Harness, tmp_path: Path
) -> None:
    (stuck,) = supervisors(kept)
    os.kill(stuck, signal.SIGSTOP)
    try:
        job_id = await start(kept, sh(f"echo ran >> {tmp_path}/ran"))
        await kept.settle()
        await kept.advance(31_000)
        assert (await run(kept, ["true"]))["state"] == "DONE", "the other slot works, with another supervisor"
        assert len(supervisors(kept)) == 2
    finally:
        os.kill(stuck, signal.SIGCONT)
    job = await kept.ended(job_id)
    assert (job["state"], job["error"]["code"], job["error"]["class"]) == ("FAILED", "E_SPAWN", "infra")
    ran = (tmp_path / "ran").read_text() if (tmp_path / "ran").exists() else ""
    assert ran in ("", "ran\n"), "once, or it was killed before: also between making the file and writing to it"


async def test_a_supervisor_that_stays_stuck_is_ended_with_all_it_has(kept: Harness, tmp_path: Path) -> None:
    """It holds up the output and the end of every run it has, and nobody could end them."""
    running = await start(kept, family(f"print([os.getpid(), child(os.setsid, twice)]); {WAIT}"))
    pids = await first_line_as_json(kept, running)
    (stuck,) = supervisors(kept)
    os.kill(stuck, signal.SIGSTOP)
    asked = await start(kept, sh(f"touch {tmp_path}/ran"))
    await kept.settle()
    await kept.advance(30_000)
    assert is_there(stuck)
    await kept.advance(5000)
    await until(lambda: gone(stuck, *pids))
    await until(lambda: waiting(kept) > 0)
    await kept.advance(1000)
    for job_id in (running, asked):
        job = await kept.ended(job_id)
        assert (job["state"], job["error"]["code"]) == ("FAILED", "E_ENGINE_CRASH")
    assert not (tmp_path / "ran").exists()
    assert (await run(kept, ["true"]))["state"] == "DONE"


@pytest.mark.parametrize(("on_interrupt", "state"), [("fail", "FAILED"), ("requeue", "DONE")])
async def test_when_the_supervisor_is_killed_its_runs_end_and_the_next_job_gets_another(
    house: Harness, tmp_path: Path, on_interrupt: str, state: str
) -> None:
    await run(house, ["true"])
    (pid,) = supervisors(house)
    program = (
        f"if os.path.exists({str(tmp_path / 'second')!r}): sys.exit()\n"
        f"print([os.getpid(), child(), child(os.setsid, twice, deaf), hidden()]); {WAIT}"
    )
    job_id = await start(house, family(program), on_interrupt=on_interrupt)
    pids = await first_line_as_json(house, job_id)
    first = (await house.job(job_id))["run_id"]
    (tmp_path / "second").touch()
    os.kill(pid, signal.SIGKILL)
    job = await house.ended(job_id)
    assert (job["state"], gone(*pids), marked(first)) == (state, True, [])
    assert job["runs"][0]["error"]["code"] == "E_ENGINE_CRASH"
    assert [one["status"] for one in job["runs"]] == (["FAILED"] if state == "FAILED" else ["INTERRUPTED", "DONE"])
    assert (await run(house, ["true"]))["state"] == "DONE"
    (another,) = supervisors(house)
    assert another != pid


async def test_a_cancel_that_was_accepted_holds_though_the_supervisor_dies(house: Harness) -> None:
    job_id = await start(
        house, family(f"deaf(); print([os.getpid()]); {WAIT}"), on_interrupt="requeue", grace_ms=60_000
    )
    pids = await first_line_as_json(house, job_id)
    assert (await house.call("job.cancel", job_id=job_id))["cancelling"] == [job_id]
    os.kill(supervisors(house)[0], signal.SIGKILL)
    job = await house.ended(job_id)
    assert (job["state"], gone(*pids)) == ("CANCELLED", True)


async def test_the_supervisor_is_started_by_the_first_command_and_leaves_with_the_daemon(home: Path) -> None:
    async with daemon(home, None, "[daemon]\nmax_slots = 2\n") as harness:
        await harness.ended((await harness.enqueue())["job_id"])
        assert supervisors(harness) == [], "nobody has needed it"
        for _ in range(3):
            await run(harness, ["true"])
        (pid,) = supervisors(harness)
    assert not is_there(pid)
    assert [name for _, folders, _ in os.walk(home / "workspaces") for name in folders] == []


async def test_a_signal_meant_for_others_does_not_end_the_supervisor(house: Harness) -> None:
    job_id = await start(house, sh("echo there; exec sleep 600"))
    await first_line(house, job_id)
    (pid,) = supervisors(house)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    assert (await run(house, ["true"]))["state"] == "DONE"
    assert (await house.state(job_id), supervisors(house)) == ("RUNNING", [pid])
    await house.call("job.cancel", job_id=job_id, wait_ms=5000)


async def test_the_supervisor_is_as_small_after_many_runs_as_before(house: Harness) -> None:
    await run(house, ["true"])
    (pid,) = supervisors(house)
    before = (rss(pid), len(os.listdir(f"/proc/{pid}/fd")))
    for _ in range(5):
        jobs = [await start(house, sh("echo x; echo y >&2")) for _ in range(20)]
        for job_id in jobs:
            assert (await house.ended(job_id))["state"] == "DONE"
    assert len(os.listdir(f"/proc/{pid}/fd")) <= before[1] + 1
    assert rss(pid) - before[0] < 3_000_000


def rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


async def test_started_is_told_only_when_there_is_a_process(kept: Harness) -> None:
    (pid,) = supervisors(kept)
    os.kill(pid, signal.SIGSTOP)
    try:
        job_id = await start(kept, ["true"])
        await kept.settle()
        assert (await kept.state(job_id), await types_of(kept, job_id)) == ("RUNNING", ["job.queued"])
        await kept.advance(12_000)
        why = await kept.call("job.explain", job_id=job_id)
        assert ([reason["kind"] for reason in why["reasons"]], why["summary"]) == (["starting"], "starting for 12s")
    finally:
        os.kill(pid, signal.SIGCONT)
    await kept.ended(job_id)
    assert len(await events(kept, "job.started", job_id=job_id)) == 1
