"""Every way to end a command and all that came from it: cancel, timeout, deadline, a newer generation, its own end.
Nothing is said to be over while /proc still shows something of it."""

from pathlib import Path
from typing import Any

from tests.cases import each_case
from tests.engine.commands import (
    WAIT,
    family,
    first_line,
    first_line_as_json,
    gone,
    output,
    python,
    run,
    sh,
    start,
    until,
)
from tests.engine.stream import events, types_of
from tests.harness import Harness, ManualClock, daemon
from tests.supervisor.families import end, is_there, marked

# A process and, each in its own way out of its group, others; all told as JSON. Deaf ones need SIGKILL.
FAMILIES: dict[str, str] = {
    "alone": f"print([os.getpid()]); {WAIT}",
    "with a child": f"print([os.getpid(), child()]); {WAIT}",
    "a session of its own": f"print([os.getpid(), child(os.setsid)]); {WAIT}",
    "forked twice": f"print([os.getpid(), child(os.setsid, twice)]); {WAIT}",
    "a group of its own": f"print([os.getpid(), child(os.setpgrp)]); {WAIT}",
    "without its first thread": f"print([os.getpid(), headless()]); {WAIT}",
    "hidden": f"print([os.getpid(), hidden()]); {WAIT}",
    "a grandchild of a session": f"print([os.getpid(), child(os.setsid, lambda: child(os.setsid, twice))]); {WAIT}",
}
DEAF: dict[str, str] = {
    "deaf": f"deaf(); print([os.getpid()]); {WAIT}",
    "a deaf child": f"print([os.getpid(), child(deaf)]); {WAIT}",
    "deaf, forked twice, alone": f"print([os.getpid(), child(deaf, os.setsid, twice)]); {WAIT}",
    "with a stopped one": f"pid = child(deaf, os.setsid); os.kill(pid, signal.SIGSTOP); print([pid]); {WAIT}",
}


async def cancelled(harness: Harness, job_id: str, pids: list[int]) -> Any:
    """The job, CANCELLED; at that very moment nothing of it was there any more."""
    run_id = (await harness.job(job_id))["run_id"]
    answer = await harness.call("job.cancel", job_id=job_id, wait_ms=8000)
    assert (answer["cancelled"], gone(*pids), marked(run_id)) == ([job_id], True, [])
    job = await harness.job(job_id)
    assert (job["state"], job["error"], [one["status"] for one in job["runs"]]) == ("CANCELLED", None, ["CANCELLED"])
    return job


@each_case("kind", FAMILIES)
async def test_a_cancel_ends_all_that_came_from_it(house: Harness, kind: str) -> None:
    job_id = await start(house, family(FAMILIES[kind]), grace_ms=60_000, max_attempts=5, on_interrupt="requeue")
    pids = await first_line_as_json(house, job_id)
    assert all(is_there(pid) for pid in pids)
    await cancelled(house, job_id, pids)


@each_case("kind", DEAF)
async def test_who_does_not_go_when_asked_is_made_to_after_grace(house: Harness, kind: str) -> None:
    job_id = await start(house, family(DEAF[kind]), grace_ms=150)
    pids = await first_line_as_json(house, job_id)
    await cancelled(house, job_id, pids)
    assert "job.unresponsive" not in await types_of(house, job_id)


async def test_grace_is_given_before_anything_is_made_to_go(home: Path) -> None:
    async with daemon(home, ManualClock(), "[daemon]\nmax_slots = 2\n") as manual:
        job_id = await start(manual, family(f"deaf(); print([os.getpid()]); {WAIT}"), grace_ms=700)
        pids = await first_line_as_json(manual, job_id)
        assert (await manual.call("job.cancel", job_id=job_id))["cancelling"] == [job_id]
        await manual.advance(699)
        assert (await manual.state(job_id), gone(*pids)) == ("RUNNING", False)
        await manual.advance(1)
        assert (await manual.ended(job_id))["state"] == "CANCELLED"
        assert gone(*pids)


async def test_a_stopped_command_is_woken_to_hear_that_it_shall_end(house: Harness) -> None:
    program = "import os, signal; print(os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    job_id = await start(house, python(program), grace_ms=60_000)
    pid = await first_line_as_json(house, job_id)
    await until(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "T")
    await cancelled(house, job_id, [pid])


async def test_a_command_may_clean_up_when_it_is_asked(house: Harness, tmp_path: Path) -> None:
    script = f"trap 'echo tidy > {tmp_path}/tidy; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    job_id = await start(house, sh(script), grace_ms=60_000)
    await first_line(house, job_id)
    job = await cancelled(house, job_id, [])
    assert (tmp_path / "tidy").read_text() == "tidy\n"
    assert (job["exit_code"], job["result_summary"]) == (0, None), "it ended well, and is CANCELLED all the same"


async def test_a_cancel_right_behind_the_enqueue_is_never_lost(house: Harness) -> None:
    client = await house.client()
    for number in range(20):
        spec: dict[str, Any] = {"job_type": "T", "payload": {"argv": ["sleep", "600"]}, "user_tag": f"t{number}"}
        enqueue, cancel = client.send("job.enqueue", **spec), client.send("job.cancel", user_tag=f"t{number}")
        job_id = (await client.result(enqueue))["job_id"]
        answer = await client.result(cancel)
        assert answer["cancelled"] + answer["cancelling"] == [job_id]
        job = await house.ended(job_id)
        assert (job["state"], marked(job["run_id"] or "-")) == ("CANCELLED", [])
    await client.close()


async def test_a_run_that_takes_too_long_is_ended_and_may_be_tried_again(house: Harness) -> None:
    program = f"print([os.getpid(), child(os.setsid)]); {WAIT}"
    job_id = await start(house, family(program), timeout_ms=300, max_attempts=2, backoff_base_ms=1)
    pids = await first_line_as_json(house, job_id)
    job = await house.ended(job_id)
    assert (job["state"], job["error"]["code"], job["run_count"]) == ("FAILED", "E_TIMEOUT", 2)
    assert [one["error"]["code"] for one in job["runs"]] == ["E_TIMEOUT", "E_TIMEOUT"]
    assert gone(*pids)


async def test_the_time_of_a_run_begins_with_its_process(home: Path) -> None:
    async with daemon(home, ManualClock(), "[daemon]\nmax_slots = 2\n") as manual:
        job_id = await start(manual, sh("echo there; exec sleep 600"), timeout_ms=1000)
        await first_line(manual, job_id)
        await manual.advance(999)
        assert await manual.state(job_id) == "RUNNING"
        await manual.advance(1)
        assert (await manual.ended(job_id))["error"]["code"] == "E_TIMEOUT"


async def test_a_deadline_ends_a_run_for_good(home: Path) -> None:
    async with daemon(home, ManualClock(), "[daemon]\nmax_slots = 2\n") as manual:
        job_id = await start(
            manual, sh("echo there; exec sleep 600"), deadline=manual.clock.now() + 5000, max_attempts=9
        )
        await first_line(manual, job_id)
        await manual.advance(5000)
        job = await manual.ended(job_id)
        assert (job["state"], job["error"]["code"], job["run_count"]) == ("FAILED", "E_DEADLINE", 1)


async def test_a_newer_generation_interrupts_the_running_one(house: Harness) -> None:
    spec = {"subject_key": "s", "on_running": "cancel"}
    old = await start(house, family(f"print([os.getpid(), child(os.setsid, twice)]); {WAIT}"), **spec)
    pids = await first_line_as_json(house, old)
    new = await start(house, sh("echo new"), **spec)
    job = await house.ended(new)
    assert (job["state"], gone(*pids)) == ("DONE", True), "the older tree is gone before the newer one starts"
    assert ((await house.job(old))["state"], (await house.job(old))["superseded_by"]) == ("SUPERSEDED", new)


async def test_what_is_left_of_it_at_its_end_is_ended_and_named(house: Harness) -> None:
    program = "print([child(), child(os.setsid, twice)])"
    job_id = await start(house, family(program))
    job = await house.ended(job_id)
    pids = await first_line_as_json(house, job_id)
    assert (job["state"], gone(*pids)) == ("DONE", True)
    text = await output(house, job_id)
    assert "the command left 2 processes running, which were ended: " in text
    assert all(f"({pid})" in text for pid in pids)


async def test_a_deaf_one_that_is_left_is_killed_after_grace_and_its_job_is_done(house: Harness) -> None:
    job_id = await start(house, family("print([child(os.setsid, deaf, twice)])"), grace_ms=100)
    job = await house.ended(job_id)
    assert (job["state"], gone(*await first_line_as_json(house, job_id))) == ("DONE", True)


async def test_what_is_to_be_kept_lives_on_and_can_go_on_writing(house: Harness) -> None:
    program = "sys.stdout.flush(); print([child(os.setsid)]); sys.stdout.flush()"
    job_id = await start(house, family(program), leftovers="keep")
    job = await house.ended(job_id)
    (pid,) = await first_line_as_json(house, job_id)
    assert (job["state"], job["leftovers"], is_there(pid)) == ("DONE", "keep", True)
    assert (await run(house, ["true"]))["state"] == "DONE"
    assert is_there(pid), "another run's end is nothing to it"
    end(pid)


async def test_a_kept_writer_is_never_blocked_by_its_pipe(house: Harness, tmp_path: Path) -> None:
    script = f"(trap '' HUP; head -c 300000 /dev/zero && echo over > {tmp_path}/over) & exit 0"
    job = await run(house, sh(script), leftovers="keep")
    assert job["state"] == "DONE"
    await until((tmp_path / "over").exists)


async def test_a_cancel_ends_also_what_would_have_been_kept(house: Harness) -> None:
    job_id = await start(house, family(f"print([os.getpid(), child(os.setsid, twice)]); {WAIT}"), leftovers="keep")
    await cancelled(house, job_id, await first_line_as_json(house, job_id))


async def test_the_end_of_one_run_touches_no_other(house: Harness) -> None:
    ids = [await start(house, family(f"print([os.getpid(), child(os.setsid, twice)]); {WAIT}")) for _ in range(3)]
    pids = [await first_line_as_json(house, job_id) for job_id in ids]
    await cancelled(house, ids[1], pids[1])
    assert all(is_there(pid) for pid in (*pids[0], *pids[2]))
    for number in (0, 2):
        await cancelled(house, ids[number], pids[number])


async def test_who_hides_everything_is_found_beside_other_runs_and_kept_ones(
    house: Harness,
) -> None:
    """No environment, no parents, a session of its own, while another run is under way that may be its owner."""
    other = await start(house, family(f"print([os.getpid(), hidden()]); {WAIT}"))
    job_id = await start(house, family(f"print([os.getpid(), hidden()]); {WAIT}"))
    theirs, ours = await first_line_as_json(house, other), await first_line_as_json(house, job_id)
    await cancelled(house, job_id, ours)
    assert all(is_there(pid) for pid in theirs)
    await cancelled(house, other, theirs)
    job = await run(house, family("print([hidden()])"))
    assert (job["state"], gone(*await first_line_as_json(house, job["job_id"]))) == ("DONE", True)


async def test_two_daemons_supervisors_leave_each_other_alone(house: Harness, home: Path) -> None:
    async with daemon(home, None, "[daemon]\nmax_slots = 2\n") as other:
        program = family(f"print([os.getpid(), child(os.setsid, twice)]); {WAIT}")
        here, there = await start(house, program), await start(other, program)
        ours, theirs = await first_line_as_json(house, here), await first_line_as_json(other, there)
        await cancelled(house, here, ours)
        assert all(is_there(pid) for pid in theirs)
        await cancelled(other, there, theirs)


async def test_what_a_closing_daemon_leaves_is_ended_by_the_time_it_is_closed(home: Path) -> None:
    async with daemon(home, None, "[daemon]\nmax_slots = 2\ngrace_ms = 200\n") as harness:
        job_id = await start(harness, family(f"deaf(); print([os.getpid(), child(os.setsid, deaf)]); {WAIT}"))
        pids = await first_line_as_json(harness, job_id)
        run_id = (await harness.job(job_id))["run_id"]
    assert (gone(*pids), marked(run_id)) == (True, [])


async def test_cancelling_it_twice_or_late_changes_nothing(house: Harness) -> None:
    job_id = await start(house, sh("echo there; exec sleep 600"))
    await first_line(house, job_id)
    job = await cancelled(house, job_id, [])
    assert (await house.call("job.cancel", job_id=job_id))["unchanged"] == [job_id]
    assert await house.job(job_id) == job
    assert len(await events(house, "job.cancelled", job_id=job_id)) == 1
