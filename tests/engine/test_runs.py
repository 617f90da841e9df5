"""What a handler does with its run: it speaks, returns, raises, or misbehaves; and nobody else is harmed."""

from collections.abc import Callable
from typing import Any

from tests.cases import each_case
from tests.engine.sample_handlers import Door
from tests.engine.stream import events
from tests.harness import Harness

DONE = ("nothing", "number", "nan", "nul", "numbers", "book", "large", "huge_int")
NO_JSON = (
    "objects", "object", "cyclic", "surrogate", "surrogate_key", "tuple_key", "endless_int", "too_large", "coroutine",
)  # fmt: skip
TRANSIENT = (
    "plain", "transient", "system_exit", "keyboard", "cancelled", "stop_iteration", "stop_async_iteration",
    "generator_exit", "base", "group", "surrogate", "validation", "nasty_text", "odd_class", "nasty_class", "nul",
    "long", "odd_retry",
)  # fmt: skip


async def run(harness: Harness, job_type: str, payload: dict[str, Any] | None = None, **spec: Any) -> Any:
    ack = await harness.enqueue(job_type, payload=payload or {}, **spec)
    return await harness.ended(ack["job_id"])


async def all_is_well(harness: Harness) -> None:
    """Both slots are free again and work."""
    for _ in range(2):
        assert (await run(harness, "semantica.echo", {"a": 1}))["result_summary"] == {"a": 1}
    await harness.settle()
    health = await harness.call("admin.health")
    assert (health["status"], health["parts"]["dispatcher"]["running"]) == ("ready", 0)


@each_case("job_type", ["talk", "talk_async"])
async def test_log_and_progress_are_kept_and_told_in_order(working: Harness, job_type: str) -> None:
    job = await run(working, job_type)
    assert job["result_summary"] == {"said": 2}
    said = {"percent": 100.0, "phase": "reading", "items_completed": 3, "items_total": 7, "message": "three of seven"}
    assert job["progress"] == said
    lines = await events(working, "job.log", job_id=job["job_id"])
    assert [(line["message"], line["level"]) for line in lines] == [("plain", "info"), ("with more", "warn")]
    assert lines[1]["payload"] == {"answer": 42, "where": ["a", "b"]}
    told = await events(working, job_id=job["job_id"])
    assert [one["job_sequence"] for one in told] == list(range(1, len(told) + 1))
    assert told[-1]["event_type"] == "job.done"


@each_case("what", DONE)
@each_case("job_type", ["give", "give_async"])
async def test_what_is_json_is_the_result(working: Harness, job_type: str, what: str) -> None:
    job = await run(working, job_type, {"what": what})
    given = {"nothing": None, "number": 7, "nan": [None, None], "nul": "a\0b", "numbers": [3], "huge_int": 2**100}
    given["large"] = "x" * 9_000_000
    assert job["state"] == "DONE"
    assert job["result_summary"] == given.get(what, {"title": "a", "pages": [1]})


@each_case("what", NO_JSON)
@each_case("job_type", ["give", "give_async"])
async def test_what_is_no_json_fails_the_run_for_good_and_harms_nobody(
    working: Harness, job_type: str, what: str
) -> None:
    job = await run(working, job_type, {"what": what}, max_attempts=3)
    assert (job["state"], job["attempts"], job["result_summary"]) == ("FAILED", 1, None)
    assert (job["error"]["code"], job["error"]["class"]) == ("E_HANDLER", "permanent")
    assert "JSON" in job["error"]["message"]
    await all_is_well(working)


async def test_a_result_nested_too_deep_harms_nobody(working: Harness) -> None:
    """Kept or refused, as far as encoder and database reach; but the run ends and the daemon goes on."""
    job = await run(working, "give", {"what": "nested"})
    assert job["state"] in ("DONE", "FAILED")
    await all_is_well(working)


@each_case("how", TRANSIENT)
@each_case("job_type", ["fail", "fail_async"])
async def test_whatever_a_handler_raises_fails_its_run_with_the_traceback(
    working: Harness, job_type: str, how: str
) -> None:
    job = await run(working, job_type, {"how": how})
    assert (job["state"], job["error"]["code"], job["error"]["class"]) == ("FAILED", "E_HANDLER", "transient")
    assert "sample_handlers.py" in job["error"]["details"]["traceback"]
    (line,) = await events(working, "job.log", job_id=job["job_id"])
    assert (line["level"], "sample_handlers.py" in line["message"]) == ("error", True)
    assert len(job["error"]["message"]) <= 2000
    (run_,) = job["runs"]
    assert (run_["status"], run_["error"]["code"]) == ("FAILED", "E_HANDLER")
    await all_is_well(working)


@each_case(("how", "attempts"), [("permanent", 1), ("infra", 2), ("transient", 2)])
@each_case("job_type", ["fail", "fail_async"])
async def test_the_class_of_a_failure_decides_whether_it_is_tried_again(
    working: Harness, job_type: str, how: str, attempts: int
) -> None:
    job = await run(working, job_type, {"how": how}, max_attempts=2, backoff_base_ms=1)
    assert (job["state"], job["attempts"], job["error"]["class"]) == ("FAILED", attempts, how)
    assert len(job["runs"]) == attempts


@each_case("job_type", ["ask_again", "ask_again_async"])
async def test_a_retry_that_the_handler_asks_for_counts_as_an_attempt(working: Harness, job_type: str) -> None:
    job = await run(working, job_type, {"after": 0}, max_attempts=3, backoff_base_ms=3_600_000)
    assert (job["state"], job["attempts"], job["error"]["class"]) == ("FAILED", 3, "transient")
    assert await events(working, "job.log", job_id=job["job_id"]) == []


@each_case("after", [-1, "soon"])
async def test_a_retry_after_no_time_is_the_handler_s_own_error(working: Harness, after: Any) -> None:
    job = await run(working, "ask_again", {"after": after})
    assert (job["state"], "Error" in job["error"]["message"]) == ("FAILED", True)


async def test_the_traceback_tells_the_cause_too(working: Harness) -> None:
    job = await run(working, "fail_chained")
    for words in ("the first cause", "what came of it"):
        assert words in job["error"]["details"]["traceback"]
    assert job["error"]["message"].endswith("Permanent: what came of it")


async def test_endless_recursion_fails_its_run(working: Harness) -> None:
    job = await run(working, "deep")
    assert job["state"] == "FAILED"
    assert "RecursionError" in job["error"]["message"]
    await all_is_well(working)


async def test_odd_words_lose_no_other_line(working: Harness) -> None:
    job = await run(working, "odd_words")
    assert (job["state"], job["result_summary"]) == ("DONE", "said it")
    lines = [one["message"] for one in await events(working, "job.log", job_id=job["job_id"])]
    assert lines[0] == "before"
    assert lines[-1] == "after"
    assert len(lines) == 4


async def test_a_count_beyond_64_bits_loses_no_line(working: Harness) -> None:
    """Whether the handler is told or the number is left out: what it said before stays said."""
    job = await run(working, "huge_progress")
    assert job["state"] in ("DONE", "FAILED")
    lines = [one["message"] for one in await events(working, "job.log", job_id=job["job_id"])]
    assert "before" in lines
    await all_is_well(working)


async def test_what_cannot_be_logged_is_told_to_the_handler(working: Harness) -> None:
    assert (await run(working, "unsayable"))["result_summary"] == ["ValueError", "TypeError"]


async def test_a_flood_of_lines_is_cut_and_the_cut_is_named(working: Harness) -> None:
    """Far more than can be stored while it runs; other jobs go on meanwhile."""
    chatter = await working.enqueue("chatter", payload={"lines": 60_000})
    other = await run(working, "semantica.noop")
    job = await working.ended(chatter["job_id"])
    assert (job["state"], other["state"]) == ("DONE", "DONE")
    assert await _stored_lines(working, job["job_id"]) + await _dropped_lines(working, job["job_id"]) == 60_000
    assert await _dropped_lines(working, job["job_id"]) > 10_000


async def _lines(harness: Harness, job_id: str) -> list[str]:
    return [one["message"] for one in await events(harness, "job.log", job_id=job_id)]


async def _stored_lines(harness: Harness, job_id: str) -> int:
    return sum(line.startswith("line ") for line in await _lines(harness, job_id))


async def _dropped_lines(harness: Harness, job_id: str) -> int:
    return sum(int(line.split()[0]) for line in await _lines(harness, job_id) if "dropped" in line)


async def test_a_flood_of_progress_is_merged_and_the_newest_counts(working: Harness) -> None:
    chatter = await working.enqueue("chatter", payload={"progress": 30_000})
    job = await working.ended(chatter["job_id"])
    assert (job["state"], job["progress"]["items_completed"]) == ("DONE", 30_000)
    stored = (await working.call("admin.stats"))["system"]["sequence"]
    assert stored < 6_000, "progress must be merged, not stored call by call"


async def test_handlers_that_never_return_or_block_leave_the_other_slots_alone(
    working: Harness, door: Callable[[str], Door]
) -> None:
    blocked = door("blocked")
    stuck = await working.enqueue("deaf", payload={"door": "blocked"})
    for _ in range(20):
        assert (await run(working, "semantica.noop"))["state"] == "DONE"
    assert await working.state(stuck["job_id"]) == "RUNNING"
    blocked.open.set()
    assert (await working.ended(stuck["job_id"]))["result_summary"] == "heard nothing"
