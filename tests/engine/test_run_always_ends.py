"""Whatever goes wrong around a run in the daemon itself, the run gets an end and its slot is free again."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.engine import results, subprocess_run
from semantica_daemon.engine.attempt import Attempt
from semantica_daemon.engine.results import Result
from tests.engine.commands import output, run, sh, start, supervisors
from tests.engine.sample_handlers import Door
from tests.harness import Harness, Process, daemon
from tests.supervisor.families import marked

ONE_SLOT = "[daemon]\nmax_slots = 1\ngrace_ms = 200\n"
WRITE_RESULT = sh("echo '{\"a\": 1}' > $SEMANTICA_RESULT")


@pytest.fixture
async def small(home: Path) -> AsyncIterator[Harness]:
    async with daemon(home, None, ONE_SLOT) as harness:
        yield harness


def fail(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("a bug")


async def check_slot_is_free(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert (await run(harness, WRITE_RESULT))["result_summary"] == {"a": 1}
    assert (await harness.call("admin.health"))["status"] == "ready"


async def test_a_variable_of_the_daemon_that_is_no_utf8_is_passed_on_as_it_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environb, b"LC_ODD", b"\xff\xfe")
    async with daemon(home, None, ONE_SLOT) as harness:
        job = await run(harness, sh('printf %s "$LC_ODD" | od -An -tx1'))
        assert (job["state"], (await output(harness, job["job_id"])).split()) == ("DONE", ["ff", "fe"])


async def test_without_a_thread_to_be_had_a_result_is_read_all_the_same(
    small: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(small, ["true"])

    async def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio, "to_thread", refuse)
    job = await run(small, WRITE_RESULT)
    monkeypatch.undo()
    assert (job["state"], job["result_summary"]) == ("DONE", {"a": 1})


async def test_a_bug_before_the_process_starts_fails_the_run(small: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_run, "spawn_request", fail)
    job = await run(small, ["true"])
    assert (job["state"], job["error"]["code"], job["error"]["class"]) == ("FAILED", "E_ENGINE_CRASH", "infra")
    assert "ZeroDivisionError: a bug" in job["error"]["message"]
    await check_slot_is_free(small, monkeypatch)


async def test_a_bug_while_the_process_runs_ends_it_before_the_run_has_failed(
    small: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess_run.SubprocessRun, "_record_start", fail)
    job = await run(small, ["sleep", "600"])
    assert (job["state"], job["error"]["code"]) == ("FAILED", "E_ENGINE_CRASH")
    assert marked(job["runs"][0]["run_id"]) == []
    await check_slot_is_free(small, monkeypatch)


async def test_a_bug_after_the_process_has_ended_fails_the_run(small: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "read", fail)
    job = await run(small, WRITE_RESULT)
    assert (job["state"], job["error"]["code"]) == ("FAILED", "E_ENGINE_CRASH")
    await check_slot_is_free(small, monkeypatch)


async def test_an_end_that_cannot_be_stored_is_replaced_by_one_that_can(
    small: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "read", lambda _: Result(text='"half a pair \ud800"'))
    job = await run(small, WRITE_RESULT)
    assert (job["state"], job["error"]["code"]) == ("FAILED", "E_ENGINE_CRASH")
    assert "surrogates not allowed" in job["error"]["message"]
    await check_slot_is_free(small, monkeypatch)


class FailingAwait:
    """Drives the coroutine of an attempt, and raises `error` in it at its n-th suspension."""

    def __init__(self, carried_out: Coroutine[Any, Any, None], number: int, error: BaseException) -> None:
        self._steps = carried_out.__await__()
        self._left = number
        self._error = error
        self.was_reached = False

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            future = self._steps.send(None)
            while True:
                self._left -= 1
                if self._left == 0:
                    self.was_reached = True
                    future._asyncio_future_blocking = False
                    future = self._steps.throw(self._error)
                else:
                    yield future
                    future = self._steps.send(None)
        except StopIteration:
            return


@pytest.mark.parametrize("error", [ZeroDivisionError("injected"), asyncio.CancelledError("injected")], ids=repr)
@pytest.mark.parametrize("loses_supervisor", [False, True])
async def test_a_failure_at_any_await_of_a_run_ends_the_run(
    small: Harness, monkeypatch: pytest.MonkeyPatch, error: BaseException, loses_supervisor: bool
) -> None:
    """The first one starts a supervisor; the last one ends without a failure, since it has no such await any more."""
    original = Attempt._run
    number = 0
    while True:
        number += 1
        made: list[FailingAwait] = []

        async def carry_out(attempt: Attempt, number: int = number, made: list[FailingAwait] = made) -> None:
            made.append(FailingAwait(original(attempt), number, error))
            await made[0]

        monkeypatch.setattr(Attempt, "_run", carry_out)
        job = await run(small, sh("sleep 0.1; kill -9 $PPID; sleep 600") if loses_supervisor else WRITE_RESULT)
        assert marked(job["runs"][0]["run_id"]) == []
        if not made[0].was_reached:
            break
        assert (job["state"], job["error"]["code"]) == ("FAILED", "E_ENGINE_CRASH"), number
    assert number >= 3, "it waits for its start and for its end"
    monkeypatch.undo()
    await check_slot_is_free(small, monkeypatch)


async def test_a_failure_before_the_supervisor_has_answered_leaves_no_process_that_starts_later(
    small: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(small, ["true"])
    (supervisor,) = supervisors(small)
    original = Attempt._run

    async def carry_out(attempt: Attempt) -> None:
        await FailingAwait(original(attempt), 1, ZeroDivisionError("injected"))

    monkeypatch.setattr(Attempt, "_run", carry_out)
    os.kill(supervisor, signal.SIGSTOP)
    job_id = await start(small, ["sleep", "600"])
    early = await small.call("job.wait", job_id=job_id, timeout_ms=200)
    os.kill(supervisor, signal.SIGCONT)
    failed = await small.ended(job_id)
    await check_slot_is_free(small, monkeypatch)  # the supervisor has handled the first request by then
    assert (failed["error"]["code"], marked(failed["runs"][0]["run_id"])) == ("E_ENGINE_CRASH", [])
    assert early["job"]["state"] == "RUNNING", "a run does not end before its process"


async def test_a_home_whose_path_is_no_utf8_runs_commands_and_keeps_their_output(home: Path) -> None:
    odd = home / os.fsdecode(b"h\xff")
    with Process(odd, HOME=str(odd)).start() as process:
        for argv in (["pwd"], sh("echo {} > $SEMANTICA_RESULT; sleep 0.2; pwd")):  # the second is seen while it runs
            job_id = process.call("job.enqueue", job_type="T", payload={"argv": argv})["job_id"]
            job = process.call("job.wait", job_id=job_id)["job"]
            assert (job["state"], job["log_path"]) == ("DONE", f"workspaces/{job_id}/job.log")
            assert process.call("job.logs", job_id=job_id)["encoding"] == "base64", "its path is the output"


async def test_a_handler_without_a_thread_fails_and_is_not_called_later(
    working: Harness, door: Callable[[str], Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = door("a"), door("b")
    held = (await working.enqueue("deaf", payload={"door": "a"}))["job_id"]
    assert await asyncio.to_thread(first.entered.wait, 40)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    failed = await working.ended((await working.enqueue("deaf", payload={"door": "b"}))["job_id"])
    monkeypatch.undo()
    assert (failed["state"], failed["error"]["class"]) == ("FAILED", "infra")
    first.open.set()
    await working.ended(held)
    later = (await working.enqueue("busy", payload={"ms": 0}))["job_id"]
    assert (await working.ended(later))["state"] == "DONE"
    assert not second.entered.is_set(), "the thread that ended the first has taken everything that waited before"


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
