"""Chains in a real daemon: what a child sees of its parents, and what a failure or a crash means for it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from semantica_daemon.engine.parents import FILE
from tests.cases import each_case
from tests.engine import sample_handlers
from tests.engine.commands import output, python, sh, start
from tests.engine.sample_handlers import Door
from tests.harness import Harness, ManualClock, daemon

SHOW = 'printf %s "$SEMANTICA_PARENT_RESULT"; printf %s "$SEMANTICA_PARENT_RESULT_FILE"'
READ_FILE = sh('cat "$SEMANTICA_PARENT_RESULT_FILE"; test -z "${SEMANTICA_PARENT_RESULT+set}"')


async def echo(harness: Harness, **payload: Any) -> str:
    return str((await harness.enqueue("semantica.echo", payload=payload))["job_id"])


@each_case("handler", ["see_parents", "see_parents_in_thread"])
async def test_a_handler_sees_the_results_of_its_parents_in_the_order_they_were_named(
    working: Harness, handler: str
) -> None:
    first, second = await echo(working, n=1), await echo(working, n=2)
    child = await working.enqueue(handler, parent_job_id=second, parents=[first, second])
    job = await working.ended(child["job_id"])
    assert job["result_summary"] == [[second, "DONE", {"n": 2}], [first, "DONE", {"n": 1}]]
    assert (job["parent_job_id"], job["parents"], job["parent_count"]) == (second, [second, first], 2)


async def test_a_handler_without_parents_sees_none(working: Harness) -> None:
    job = await working.ended((await working.enqueue("see_parents"))["job_id"])
    assert (job["result_summary"], job["parents"], job["parent_count"]) == ([], [], 0)


@each_case("count", [1, 2])
async def test_a_command_gets_the_result_of_its_parent_in_a_variable(house: Harness, count: int) -> None:
    parents = [await echo(house, n=number) for number in range(count)]
    child = await start(house, sh(SHOW), parents=parents)
    await house.ended(child)
    by_id = {parent: {"n": number} for number, parent in enumerate(parents)}
    assert json.loads(await output(house, child)) == ({"n": 0} if count == 1 else by_id)


async def test_a_parent_without_a_result_is_null(house: Harness) -> None:
    parent = (await house.enqueue())["job_id"]
    child = await start(house, sh(SHOW), parents=[parent])
    await house.ended(child)
    assert await output(house, child) == "null"


async def test_a_job_without_parents_has_neither_variable(house: Harness) -> None:
    job = await house.ended(await start(house, sh("env | grep -c PARENT_RESULT")))
    assert (job["exit_code"], await output(house, job["job_id"])) == (1, "0\n")


async def test_a_large_result_is_in_a_file(house: Harness) -> None:
    parent = await echo(house, text="ä" * 40_000)
    child = await start(house, READ_FILE, parents=[parent])
    job = await house.ended(child)
    assert json.loads(await output(house, child)) == {"text": "ä" * 40_000}
    assert job["state"] == "DONE"


async def test_the_largest_result_of_a_variable_is_64_kib(house: Harness) -> None:
    parent = await echo(house, t="x" * (65_536 - len('{"t":""}')))
    child = await start(house, python("import os; print(len(os.environ['SEMANTICA_PARENT_RESULT']))"), parents=[parent])
    await house.ended(child)
    assert await output(house, child) == "65536\n"


async def test_a_second_run_gets_the_file_again_whatever_the_first_has_left_there(house: Harness) -> None:
    parent = await echo(house, text="x" * 70_000)
    script = f'wc -c < "$SEMANTICA_PARENT_RESULT_FILE"; rm "$SEMANTICA_WORKSPACE/{FILE}"'
    script += f'; ln -s /etc/passwd "$SEMANTICA_WORKSPACE/{FILE}"; test $SEMANTICA_ATTEMPT = 2'
    child = await start(house, sh(script), parents=[parent], max_attempts=2, backoff_base_ms=1)
    job = await house.ended(child)
    assert (job["state"], job["run_count"]) == ("DONE", 2)
    assert await output(house, child) == "70011\n"


async def test_a_file_that_cannot_be_written_is_a_failed_start(house: Harness) -> None:
    parent = await echo(house, text="x" * 70_000)
    script = f'rm "$SEMANTICA_WORKSPACE/{FILE}"; mkdir "$SEMANTICA_WORKSPACE/{FILE}"; exit 1'
    job = await house.ended(await start(house, sh(script), parents=[parent], max_attempts=2, backoff_base_ms=1))
    assert (job["state"], job["error"]["code"], job["claim_attempts"]) == ("FAILED", "E_SPAWN", 3)
    assert FILE in job["error"]["message"]


async def test_a_child_waits_through_the_retries_of_its_parent(timed: Harness) -> None:
    parent = await timed.enqueue("fail", payload={"how": "transient"}, max_attempts=2)
    child = (await timed.enqueue(parents=[parent["job_id"]]))["job_id"]
    await timed.settle()
    assert await timed.state(child) == "SCHEDULED"
    await timed.advance(5000)
    assert await timed.state(child) == "CANCELLED"
    why = await timed.call("job.explain", job_id=child)
    assert why["summary"] == f"cancelled: it needed job {parent['job_id'][:8]}, which ended as FAILED"


async def test_a_chain_that_was_under_way_goes_on_after_a_restart(home: Path, door: Callable[[str], Door]) -> None:
    config, clock = sample_handlers.config(), ManualClock()
    held = door("held")
    async with daemon(home, clock, config) as first:
        specs = [
            {"job_type": "semantica.echo", "payload": {"n": 1}},
            {"job_type": "deaf", "payload": {"door": "held"}, "parents": ["#0"], "on_interrupt": "requeue"},
            {"job_type": "see_parents", "parents": ["#0", "#1"]},
        ]
        ids = [ack["job_id"] for ack in (await first.call("job.enqueue_many", jobs=specs))["jobs"]]
        await first.settle()
        assert [await first.state(one) for one in ids] == ["DONE", "RUNNING", "SCHEDULED"]
        held.open.set()
    async with daemon(home, clock, config) as second:
        job = await second.ended(ids[2])
        assert (job["state"], job["result_summary"][0]) == ("DONE", [ids[0], "DONE", {"n": 1}])
