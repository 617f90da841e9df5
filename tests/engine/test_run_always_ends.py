"""Whatever goes wrong around a run in the daemon itself, the run gets an end and its slot is free again."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.engine import results, subprocess_run
from semantica_daemon.engine.results import Result
from tests.engine.commands import output, run, sh
from tests.harness import Harness, daemon
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
