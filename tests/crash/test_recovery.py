"""What the next start makes of a daemon that was killed while it had work under way."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash import invariants
from tests.engine import sample_handlers
from tests.harness import Process
from tests.stopwatch import Stopwatch


@pytest.fixture
def process(home: Path) -> Iterator[Process]:
    (home / "config.toml").write_text(sample_handlers.config(slots=8))
    with Process(home) as one:
        yield one


def enqueue(process: Process, job_type: str = "deaf", **spec: Any) -> str:
    return str(process.call("job.enqueue", job_type=job_type, **spec)["job_id"])


def killed_and_started_again(process: Process) -> dict[str, Any]:
    """The daemon.recovered event of the new start."""
    process.kill()
    process.start()
    invariants.check(process.home)
    told = process.call("event.list", event_types=["daemon.recovered"], limit=1000)["events"]
    return dict(told[-1]) if told else {}


def job_of(process: Process, job_id: str) -> dict[str, Any]:
    return dict(process.call("job.get", job_id=job_id))


def test_a_run_that_was_under_way_failed_with_the_engine(process: Process) -> None:
    process.start()
    job_id = enqueue(process)
    recovered = killed_and_started_again(process)
    job = job_of(process, job_id)
    assert (job["state"], job["error"]["code"], job["error"]["class"]) == ("FAILED", "E_ENGINE_CRASH", "infra")
    assert [(run["status"], run["error"]["code"]) for run in job["runs"]] == [("FAILED", "E_ENGINE_CRASH")]
    assert recovered["payload"]["jobs"] == {job_id: "FAILED"}
    assert recovered["job_id"] is None


def test_a_job_with_attempts_left_is_tried_again_after_its_backoff(process: Process) -> None:
    process.start()
    later = enqueue(process, max_attempts=2, backoff_base_ms=600_000)
    soon = enqueue(process, "semantica.sleep", payload={"ms": 300}, max_attempts=2, backoff_base_ms=1)
    recovered = killed_and_started_again(process)
    assert recovered["payload"]["jobs"] == {later: "SCHEDULED", soon: "SCHEDULED"}
    job = job_of(process, later)
    assert (job["state"], job["attempts"]) == ("SCHEDULED", 1)
    assert 0.9 * 600_000 <= job["scheduled_at"] - recovered["timestamp_at"] <= 1.1 * 600_000
    job = process.call("job.wait", job_id=soon)["job"]
    assert (job["state"], job["attempts"], [run["status"] for run in job["runs"]]) == ("DONE", 2, ["FAILED", "DONE"])


def test_a_job_that_asks_for_it_is_put_back_and_has_its_attempt_again(process: Process) -> None:
    process.start()
    job_id = enqueue(process, "semantica.sleep", payload={"ms": 300}, on_interrupt="requeue")
    for _ in range(2):
        assert killed_and_started_again(process)["payload"]["jobs"] == {job_id: "QUEUED"}
    job = process.call("job.wait", job_id=job_id)["job"]
    assert (job["state"], job["attempts"], job["run_count"]) == ("DONE", 1, 3)
    assert [run["status"] for run in job["runs"]] == ["INTERRUPTED", "INTERRUPTED", "DONE"]


@pytest.mark.parametrize("on_interrupt", ["fail", "requeue"])
def test_a_cancel_that_was_accepted_holds(process: Process, on_interrupt: str) -> None:
    process.start()
    job_id = enqueue(process, max_attempts=5, on_interrupt=on_interrupt)
    assert process.call("job.cancel", job_id=job_id)["cancelling"] == [job_id]
    assert killed_and_started_again(process)["payload"]["jobs"] == {job_id: "CANCELLED"}
    job = job_of(process, job_id)
    assert (job["state"], job["run_count"], job["error"]) == ("CANCELLED", 1, None)


def test_what_was_being_superseded_is_superseded_and_the_newest_runs(process: Process) -> None:
    process.start()
    old = enqueue(process, subject_key="a", max_attempts=5)
    stale = enqueue(process, subject_key="b", max_attempts=5)
    new = enqueue(process, subject_key="a", on_running="cancel")
    newer = enqueue(process, subject_key="b")
    recovered = killed_and_started_again(process)
    assert recovered["payload"]["jobs"] == {old: "SUPERSEDED", stale: "SUPERSEDED"}
    assert [job_of(process, one)["superseded_by"] for one in (old, stale)] == [new, newer]
    assert [job_of(process, one)["state"] for one in (new, newer)] == ["RUNNING", "RUNNING"]


def test_what_waited_waits_on_in_its_order(process: Process) -> None:
    process.start()
    process.call("queue.pause")
    specs = [{"job_type": "semantica.noop", "priority": number % 3} for number in range(30)]
    acks = process.call("job.enqueue_many", jobs=specs)["jobs"]
    later = enqueue(process, "semantica.noop", schedule={"type": "AFTER", "delay_ms": 3_600_000})
    assert killed_and_started_again(process) == {}, "nothing ran, so nothing is told"
    assert process.call("queue.list")["queues"][0]["paused"] is True
    process.call("queue.resume")
    for ack in acks:
        assert process.call("job.wait", job_id=ack["job_id"])["finished"]
    started = process.call("event.list", event_types=["job.started"], limit=1000)["events"]
    expected = [ack["job_id"] for level in (2, 1, 0) for ack in acks[level::3]]
    assert [one["job_id"] for one in started] == expected
    assert job_of(process, later)["state"] == "SCHEDULED"


def test_what_became_due_or_late_while_it_was_down_is_so_at_once(process: Process) -> None:
    process.start()
    process.call("queue.pause", queue="held")
    due = enqueue(process, "semantica.noop", schedule={"type": "AFTER", "delay_ms": 300})
    expired = enqueue(process, "semantica.noop", queue="held", ttl_ms=300)
    now = process.call("event.list", limit=1)["events"][0]["timestamp_at"]
    late = enqueue(process, "semantica.noop", queue="held", deadline=now + 1000)
    process.kill()
    _until(now + 1100)
    process.start()
    states = [process.call("job.wait", job_id=one)["job"]["state"] for one in (due, expired, late)]
    assert states == ["DONE", "SKIPPED_TTL", "SKIPPED_DEADLINE"]


def _until(instant: int) -> None:
    """Real time must pass while no daemon is there to wait on."""
    while time.time() * 1000 < instant:
        time.sleep(0.01)


def test_the_stream_goes_on_where_it_was_with_the_same_epoch(process: Process) -> None:
    process.start()
    first = process.call("event.list", limit=1000)
    process.call("job.wait", job_id=enqueue(process, "semantica.noop"))
    process.kill()
    process.start()
    after = process.call("event.list", since=first["next_sequence"], epoch=first["epoch"], limit=1000)
    assert after["epoch"] == first["epoch"]
    assert [one["sequence"] for one in after["events"]] == list(
        range(first["next_sequence"] + 1, first["next_sequence"] + 1 + len(after["events"]))
    )
    assert "job.done" in [one["event_type"] for one in after["events"]]


def test_ten_thousand_live_jobs_are_ready_again_within_two_seconds(process: Process) -> None:
    process.start()
    running = [enqueue(process, max_attempts=2) for _ in range(8)]
    process.call("queue.pause")
    for part in range(10):
        process.call("job.enqueue_many", jobs=[_live(part * 1000 + number) for number in range(1000)])
    process.kill()
    watch = Stopwatch()
    process.start()
    assert process.process is not None
    assert watch.seconds(process.process.pid) < 2
    queues = process.call("admin.stats")["queues"]
    assert sum(one["queued"] + one["scheduled"] for one in queues) == 10_000 + len(running)


def _live(number: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"job_type": "semantica.noop", "queue": f"q{number % 5}", "payload": {"n": number}}
    if number % 3 == 0:
        spec["schedule"] = {"type": "AFTER", "delay_ms": 3_600_000 + number}
    if number % 4 == 0:
        spec["subject_key"] = f"editor::repo::file{number}"
    return spec
