"""job.cancel: every selector, what it answers for what waits, runs and has ended, and how long it may wait."""

from typing import Any

import pytest

from tests.cases import each_case
from tests.harness import Harness, RpcError
from tests.stopwatch import Stopwatch

LONG = {"type": "AFTER", "delay_ms": 3_600_000}
NOTHING: dict[str, list[str]] = {"cancelled": [], "cancelling": [], "unchanged": []}
MINE: dict[str, Any] = {"user_tag": "t", "chain_group_id": "g", "subject_key": "s", "queue": "q"}


async def running_job(harness: Harness, **spec: Any) -> str:
    """A job that sleeps for a minute, once it is really running."""
    client = await harness.client()
    await client.call("event.subscribe", event_types=["job.started"])
    ack = await harness.enqueue("semantica.sleep", payload={"ms": 60_000}, **spec)
    (event,) = await client.events(1)
    assert event["job_id"] == ack["job_id"]
    await client.close()
    return str(ack["job_id"])


@pytest.mark.parametrize("selector", ["job_id", "job_ids", *MINE])
async def test_a_selector_ends_its_own_jobs_and_no_others(real: Harness, selector: str) -> None:
    mine = (await real.enqueue(schedule=LONG, **MINE))["job_id"]
    other = (await real.enqueue(schedule=LONG, **{name: value + "2" for name, value in MINE.items()}))["job_id"]
    value = {"job_id": mine, "job_ids": [mine]}.get(selector) or MINE[selector]
    assert await real.call("job.cancel", **{selector: value}) == NOTHING | {"cancelled": [mine]}
    job = await real.job(mine)
    assert job["state"] == "CANCELLED"
    assert job["finished_at"] is not None
    assert await real.state(other) == "SCHEDULED"


@pytest.mark.parametrize("selector", MINE)
async def test_a_selector_other_than_ids_selects_live_jobs_only(real: Harness, selector: str) -> None:
    ended = (await real.enqueue(**MINE))["job_id"]
    await real.ended(ended)
    assert await real.call("job.cancel", **{selector: MINE[selector]}) == NOTHING
    assert await real.state(ended) == "DONE"


async def test_what_has_ended_is_listed_as_unchanged(real: Harness) -> None:
    ended = (await real.enqueue())["job_id"]
    await real.ended(ended)
    waiting = (await real.enqueue(schedule=LONG))["job_id"]
    answer = await real.call("job.cancel", job_ids=[ended, waiting])
    assert answer == {"cancelled": [waiting], "cancelling": [], "unchanged": [ended]}
    answer = await real.call("job.cancel", job_ids=[ended, waiting])
    assert answer == {"cancelled": [], "cancelling": [], "unchanged": [ended, waiting]}


async def test_a_job_named_twice_is_listed_once(real: Harness) -> None:
    waiting = (await real.enqueue(schedule=LONG))["job_id"]
    answer = await real.call("job.cancel", job_ids=[waiting, waiting[:8], waiting, waiting.upper()])
    assert answer == NOTHING | {"cancelled": [waiting]}


async def test_one_unknown_id_among_others_changes_nothing(real: Harness) -> None:
    waiting = (await real.enqueue(schedule=LONG))["job_id"]
    with pytest.raises(RpcError) as caught:
        await real.call("job.cancel", job_ids=[waiting, "00000000-0000-4000-8000-000000000000"])
    assert (caught.value.code, caught.value.data["code"]) == (4001, "E_JOB_NOT_FOUND")
    assert await real.state(waiting) == "SCHEDULED"


async def test_a_running_job_is_cancelling_and_then_cancelled(real: Harness) -> None:
    job_id = await running_job(real)
    assert await real.call("job.cancel", job_id=job_id, reason="enough") == NOTHING | {"cancelling": [job_id]}
    assert (await real.ended(job_id))["state"] == "CANCELLED"
    messages = [event["message"] for event in (await real.call("event.list", job_id=job_id))["events"]]
    assert any("enough" in message for message in messages)


async def test_with_wait_ms_the_answer_comes_when_it_is_really_gone(real: Harness) -> None:
    job_id = await running_job(real, queue="q")
    waiting = (await real.enqueue(queue="q", schedule=LONG))["job_id"]
    answer = await real.call("job.cancel", queue="q", wait_ms=30_000)
    assert (sorted(answer["cancelled"]), answer["cancelling"]) == (sorted([job_id, waiting]), [])
    assert await real.state(job_id) == "CANCELLED"


async def test_wait_ms_bounds_how_long_a_stubborn_job_is_waited_for(manual: Harness) -> None:
    """Its end needs the grace period of a clock that stands still; the answer does not wait for that."""
    job_id = await running_job(manual)
    watch = Stopwatch()
    answer = await manual.call("job.cancel", job_id=job_id, wait_ms=2000)
    assert watch.seconds() < 5
    assert answer["cancelled"] + answer["cancelling"] == [job_id]


async def test_a_long_queue_is_cancelled_whole(real: Harness) -> None:
    """More than one part of the writer's: nothing is left out."""
    ids = []
    for _ in range(3):
        specs = [{"job_type": "semantica.noop", "queue": "long", "schedule": LONG}] * 900
        ids += [ack["job_id"] for ack in (await real.call("job.enqueue_many", jobs=specs))["jobs"]]
    answer = await real.call("job.cancel", queue="long")
    assert sorted(answer["cancelled"]) == sorted(ids)
    assert (answer["cancelling"], answer["unchanged"]) == ([], [])


@each_case("given", [{}, {"job_id": "abcd", "queue": "q"}, {"reason": "x"}, MINE])
async def test_exactly_one_selector_is_needed(shared: Harness, given: dict[str, Any]) -> None:
    with pytest.raises(RpcError) as caught:
        await shared.call("job.cancel", **given)
    assert (caught.value.code, caught.value.data["path"]) == (-32602, "$")
    assert "exactly one of job_id" in caught.value.message


@each_case(
    ("given", "path"),
    [
        ({"queue": "a b"}, "$.queue"),
        ({"job_ids": ["x"]}, "$.job_ids[0]"),
        ({"job_ids": ["abcd"] * 1001}, "$.job_ids"),
        ({"queue": "q", "wait_ms": -1}, "$.wait_ms"),
        ({"queue": "q", "reason": "x" * 1001}, "$.reason"),
        ({"subject_key": "a\x00"}, "$.subject_key"),
    ],
)
async def test_a_selection_that_cannot_be_is_refused_with_its_path(
    shared: Harness, given: dict[str, Any], path: str
) -> None:
    with pytest.raises(RpcError) as caught:
        await shared.call("job.cancel", **given)
    assert (caught.value.code, caught.value.data["path"]) == (-32602, path)


async def test_the_reason_is_kept_with_the_end(real: Harness) -> None:
    job_id = (await real.enqueue(schedule=LONG))["job_id"]
    await real.call("job.cancel", job_id=job_id, reason="superfluous\n\x00 ä")
    (event,) = (await real.call("event.list", event_types=["job.cancelled"]))["events"]
    assert event["message"] == "superfluous\n\x00 ä"
