"""What a run sees of the payloads that its job has gathered: `ctx.gathered`, or the file $SEMANTICA_GATHERED."""

import json
from typing import Any

from tests.engine.commands import output, python, sh
from tests.harness import Harness

LATER = {"type": "AFTER", "delay_ms": 1000}


async def save(harness: Harness, job_type: str, payload: dict[str, Any], **spec: Any) -> str:
    spec = {"subject_key": "s", "gather": True, "schedule": LATER, **spec}
    return str((await harness.enqueue(job_type, payload=payload, **spec))["job_id"])


async def test_a_typed_handler_gets_its_own_payload_and_the_others_in_the_context(timed: Harness) -> None:
    """They are no part of its type, which takes no other fields."""
    for title in ("a", "b", "c"):
        job_id = await save(timed, "typed_gathered", {"title": title, "pages": []})
    await timed.advance(1000)
    job = await timed.ended(job_id)
    assert (job["state"], job["result_summary"]) == ("DONE", ["c", ["a", "b"], 0])
    assert [one["title"] for one in job["payload"]["gathered"]] == ["a", "b"]


async def test_an_untyped_handler_finds_them_in_both_places(timed: Harness) -> None:
    await save(timed, "gathered", {"n": 1})
    job_id = await save(timed, "gathered", {"n": 2})
    await timed.advance(1000)
    own = {"n": 2, "gathered": [{"n": 1}]}
    assert (await timed.ended(job_id))["result_summary"] == [own, [{"n": 1}]]


async def test_without_anything_gathered_the_context_is_empty(timed: Harness) -> None:
    job_id = await save(timed, "gathered", {"n": 1}, schedule={"type": "IMMEDIATE"})
    assert (await timed.ended(job_id))["result_summary"] == [{"n": 1}, []]


async def test_kept_jobs_make_one_run_that_knows_them_all(timed: Harness) -> None:
    ids = {await save(timed, "gathered", {"n": n}, supersede="keep", debounce_ms=100) for n in range(4)}
    await timed.advance(1000)
    (job_id,) = ids
    assert [one["n"] for one in (await timed.ended(job_id))["result_summary"][1]] == [1, 2, 3]


async def test_a_command_finds_them_in_a_file(house: Harness) -> None:
    script = "cat $SEMANTICA_GATHERED; echo; echo $SEMANTICA_GATHERED_DROPPED; exit 1"
    spec = {"subject_key": "s", "gather": True, "max_attempts": 2, "backoff_base_ms": 1}
    await house.call("queue.pause")
    first = {"argv": sh("exit 1"), "cwd": "/"}
    await house.enqueue("T", payload=first, **spec)
    job_id = (await house.enqueue("T", payload={"argv": sh(script), "cwd": "/"}, **spec))["job_id"]
    await house.call("queue.resume")
    assert (await house.ended(job_id))["run_count"] == 2
    for run in (1, 2):
        written, dropped = (await output(house, job_id, run=run)).splitlines()
        assert (json.loads(written), dropped) == ([first], "0")


async def test_a_command_that_has_gathered_nothing_finds_an_empty_list(house: Harness) -> None:
    script = "import os; print(open(os.environ['SEMANTICA_GATHERED']).read())"
    payload = {"argv": python(script), "cwd": "/"}
    job_id = (await house.enqueue("T", payload=payload, subject_key="s", gather=True))["job_id"]
    await house.ended(job_id)
    assert (await output(house, job_id)).strip() == "[]"


async def test_a_command_without_gather_has_no_such_variable(house: Harness) -> None:
    job_id = (await house.enqueue("T", payload={"argv": sh("echo ${SEMANTICA_GATHERED-none}"), "cwd": "/"}))["job_id"]
    await house.ended(job_id)
    assert (await output(house, job_id)).strip() == "none"
