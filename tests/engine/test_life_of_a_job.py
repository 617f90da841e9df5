"""The way of a job through the whole daemon."""

from tests.harness import Harness


async def test_a_job_runs_and_its_result_is_kept(real: Harness) -> None:
    ack = await real.enqueue("semantica.echo", payload={"a": 1})
    job = await real.ended(ack["job_id"])
    assert (job["state"], job["result_summary"], job["attempts"]) == ("DONE", {"a": 1}, 1)


async def test_a_job_after_a_delay_waits_really(manual: Harness) -> None:
    ack = await manual.enqueue(schedule={"type": "AFTER", "delay_ms": 5000})
    assert ack["state"] == "SCHEDULED"
    await manual.advance(4999)
    assert await manual.state(ack["job_id"]) == "SCHEDULED"
    await manual.advance(1)
    assert await manual.state(ack["job_id"]) == "DONE"
