"""Cron schedules on a manual clock: each occurrence makes one job at its instant, for days and across changed clocks.

What they do after a suspend is in `test_schedules_missed`, what after a crash in `test_schedules_crash`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine import sample_handlers
from tests.engine.manual_time import leap
from tests.engine.sample_handlers import Door
from tests.engine.schedules import DAY, HOUR, MINUTE, fired, instant, jobs_of, put, told, view
from tests.harness import START, Harness, ManualClock, daemon

Doors = Callable[[str], Door]


async def test_each_occurrence_makes_one_job_at_its_instant(manual: Harness) -> None:
    """START is 8:00 in UTC."""
    made = await put(manual, "*/20 * * * *", spec={"payload": {"a": 1, "b": 2}}, param_overrides={"b": 3})
    assert made["next_trigger_at"] == START + 20 * MINUTE
    await leap(manual, HOUR)
    wanted = [START + minutes * MINUTE for minutes in (20, 40, 60)]
    assert await fired(manual) == wanted
    jobs = await jobs_of(manual)
    assert [(job["created_at"], job["state"]) for job in jobs] == [(at, "DONE") for at in wanted]
    assert all(job["payload"] == {"a": 1, "b": 3} for job in jobs)
    assert {job["template_id"] for job in jobs} == {(await view(manual))["template_id"]}
    after = await view(manual)
    assert (after["last_triggered_at"], after["next_trigger_at"]) == (wanted[-1], START + 80 * MINUTE)
    assert after["last_job_id"] == jobs[-1]["job_id"]
    assert after["upcoming"] == [START + minutes * MINUTE for minutes in (80, 100, 120, 140, 160)]


async def test_seconds_may_stand_in_front(manual: Harness) -> None:
    await put(manual, "*/10 * * * * *")
    await manual.advance(30_000)
    assert await fired(manual) == [START + 10_000, START + 20_000, START + 30_000]


async def test_an_alias_fires_as_the_five_fields_it_stands_for(manual: Harness) -> None:
    for name, cron in (("daily", "@daily"), ("hourly", "@hourly"), ("fields", "0 0 * * *")):
        await put(manual, cron, name)
    await leap(manual, 2 * DAY)
    assert await fired(manual, "daily") == [instant("2027-01-16"), instant("2027-01-17")]
    assert await fired(manual, "daily") == await fired(manual, "fields")
    assert await fired(manual, "hourly") == [START + hours * HOUR for hours in range(1, 49)]


CHANGES = {
    "spring in Berlin, at a time that is left out": (
        "Europe/Berlin", "30 2 * * *", "2027-03-27", "2027-03-29 20:00",
        ["2027-03-27 01:30", "2027-03-28 01:00", "2027-03-29 00:30"],
    ),
    "spring in Berlin, every half hour of an hour that is left out": (
        "Europe/Berlin", "*/30 2 * * *", "2027-03-27", "2027-03-29 20:00",
        ["2027-03-27 01:00", "2027-03-27 01:30", "2027-03-29 00:00", "2027-03-29 00:30"],
    ),
    "autumn in Berlin, at a time that comes twice": (
        "Europe/Berlin", "30 2 * * *", "2027-10-30", "2027-11-01 20:00",
        ["2027-10-30 00:30", "2027-10-31 00:30", "2027-11-01 01:30"],
    ),
    "autumn in Berlin, every hour": (
        "Europe/Berlin", "0 * * * *", "2027-10-30 23:30", "2027-10-31 23:30",
        [f"2027-10-31 {hour:02}:00" for hour in range(24)],
    ),
    "autumn in New York, at a time after it": (
        "America/New_York", "0 9 * * *", "2027-11-06", "2027-11-08",
        ["2027-11-06 13:00", "2027-11-07 14:00"],
    ),
    "spring in Sydney, which is October": (
        "Australia/Sydney", "15 2 * * *", "2027-10-01 12:00", "2027-10-03 20:00",
        ["2027-10-01 16:15", "2027-10-02 16:00", "2027-10-03 15:15"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
async def test_the_days_on_which_clocks_are_changed(home: Path, name: str) -> None:
    """The days around it; the instants are in UTC and written down by hand."""
    zone, cron, begin, end, wanted = CHANGES[name]
    async with daemon(home, ManualClock(instant(begin))) as harness:
        await put(harness, cron, timezone=zone)
        await leap(harness, instant(end) - instant(begin))
        assert await fired(harness) == [instant(text) for text in wanted]


async def test_a_thing_that_is_due_at_the_same_instant_a_hundred_times_happens_a_hundred_times(manual: Harness) -> None:
    await manual.call("template.put", name="t", spec={"job_type": "semantica.noop"})
    for number in range(100):
        await manual.call("schedule.put", name=f"s{number}", template_id="t", cron_expression="@hourly")
    await leap(manual, HOUR)
    stats = (await manual.call("admin.stats"))["queues"][0]
    assert (stats["done"], stats["queued"]) == (100, 0)
    listed = (await manual.call("schedule.list"))["schedules"]
    assert {(one["last_triggered_at"], one["next_trigger_at"]) for one in listed} == {(START + HOUR, START + 2 * HOUR)}


async def at_its_door(harness: Harness, place: Door) -> None:
    assert await asyncio.to_thread(place.entered.wait, 10)
    place.entered.clear()


HOLD: dict[str, Any] = {"job_type": "hold", "payload": {"door": "a"}}


async def test_overlap_queue_runs_one_after_the_other(timed: Harness, door: Doors) -> None:
    place = door("a")
    await put(timed, "* * * * *", spec=HOLD)
    await leap(timed, 3 * MINUTE)
    await at_its_door(timed, place)
    jobs = await jobs_of(timed)
    assert [job["state"] for job in jobs] == ["RUNNING", "SCHEDULED", "SCHEDULED"]
    why = await timed.call("job.explain", job_id=jobs[2]["job_id"])
    assert [(reason["kind"], reason["job_id"]) for reason in why["reasons"]] == [("turn", jobs[0]["job_id"])]
    await timed.call("schedule.disable", schedule_id="s")
    place.open.set()
    ended = [await timed.ended(job["job_id"]) for job in jobs]
    assert [job["state"] for job in ended] == ["DONE"] * 3
    runs = [(job["started_at"], job["finished_at"]) for job in ended]
    assert runs == sorted(runs)
    kinds = [one["event_type"] for one in (await timed.call("event.list", limit=1000))["events"]]
    ends = [kind for kind in kinds if kind in ("job.started", "job.done")]
    assert ends == ["job.started", "job.done"] * 3


@pytest.mark.parametrize("end", ["cancelled", "failed", "cancelled after the one that was next"])
async def test_the_turn_is_passed_on_however_the_earlier_job_ends(timed: Harness, door: Doors, end: str) -> None:
    place = door("a")
    await put(timed, "* * * * *", spec={**HOLD, "subject_key": "x", "supersede": "none", "timeout_ms": 90_000})
    await leap(timed, 2 * MINUTE)
    await at_its_door(timed, place)
    first, second = await jobs_of(timed)
    assert (first["state"], second["state"]) == ("RUNNING", "SCHEDULED")
    if end == "cancelled":
        await timed.call("job.cancel", job_id=first["job_id"], wait_ms=5000)
    elif end == "failed":
        await timed.advance(90_000 - MINUTE)
    else:
        await timed.call("job.cancel", job_id=second["job_id"])
        await leap(timed, MINUTE)
        second = (await jobs_of(timed))[-1]
        await timed.call("job.cancel", job_id=first["job_id"], wait_ms=5000)
    await at_its_door(timed, place)
    assert await timed.state(second["job_id"]) == "RUNNING"


async def test_who_waits_for_its_turn_still_does_after_a_restart(home: Path, door: Doors) -> None:
    clock, place = ManualClock(), door("a")
    more = "[queues.default]\nslots = 2\n"
    async with daemon(home, clock, sample_handlers.config(more=more)) as harness:
        await put(harness, "* * * * *", spec={**HOLD, "on_interrupt": "requeue"})
        await leap(harness, 2 * MINUTE)
        await at_its_door(harness, place)
        await harness.call("schedule.disable", schedule_id="s")
        ids = [job["job_id"] for job in await jobs_of(harness)]
    async with daemon(home, clock, sample_handlers.config(more=more), seed=1) as harness:
        await harness.settle()
        await at_its_door(harness, place)
        assert [await harness.state(job_id) for job_id in ids] == ["RUNNING", "SCHEDULED"]
        place.open.set()
        assert [(await harness.ended(job_id))["state"] for job_id in ids] == ["DONE", "DONE"]


async def test_overlap_skip_makes_no_second_job_and_says_so(timed: Harness, door: Doors) -> None:
    place = door("a")
    await put(timed, "* * * * *", spec=HOLD, overlap="skip")
    await leap(timed, 3 * MINUTE)
    await at_its_door(timed, place)
    assert await fired(timed) == [START + MINUTE]
    missed = await told(timed, "skipped")
    assert [(one["reason"], one["trigger_at"]) for one in missed] == [
        ("overlap", START + 2 * MINUTE),
        ("overlap", START + 3 * MINUTE),
    ]
    place.open.set()
    (job,) = await jobs_of(timed)
    await timed.ended(job["job_id"])
    await leap(timed, MINUTE)
    assert await fired(timed) == [START + MINUTE, START + 4 * MINUTE]


@pytest.mark.parametrize(("on_running", "ends"), [("finish", "DONE"), ("cancel", "SUPERSEDED")])
async def test_overlap_supersede_lets_the_newest_win(timed: Harness, door: Doors, on_running: str, ends: str) -> None:
    """One slot for it, so that a second waits in the queue when the third comes."""
    place = door("a")
    await timed.call("queue.configure", queue="q", slots=1)
    spec = {**HOLD, "queue": "q", "on_running": on_running}
    await put(timed, "* * * * *", spec=spec, overlap="supersede")
    await leap(timed, MINUTE)
    await at_its_door(timed, place)
    await timed.call("queue.pause", queue="q")
    await leap(timed, 2 * MINUTE)
    await timed.call("schedule.disable", schedule_id="s")
    first, second, third = await jobs_of(timed)
    assert (second["state"], second["superseded_by"]) == ("SUPERSEDED", third["job_id"])
    assert (first["state"], first["stale"]) == ("RUNNING" if on_running == "finish" else "SUPERSEDED", True)
    place.open.set()
    await timed.call("queue.resume", queue="q")
    assert [(await timed.ended(job["job_id"]))["state"] for job in (first, third)] == [ends, "DONE"]


async def test_an_edit_leaves_jobs_already_made_alone(manual: Harness) -> None:
    await manual.call("queue.pause")
    made = await put(manual, "@hourly", spec={"payload": {"v": 1}, "priority": 5}, overlap="supersede")
    await leap(manual, HOUR)
    (before,) = await jobs_of(manual)
    again = await put(manual, "*/30 * * * *", spec={"payload": {"v": 2}, "queue": "other"}, overlap="queue")
    assert (again["schedule_id"], again["created"]) == (made["schedule_id"], False)
    assert again["next_trigger_at"] == START + HOUR + 30 * MINUTE
    unchanged = await manual.job(before["job_id"])
    assert {name: unchanged[name] for name in before} == before
    await leap(manual, 30 * MINUTE)
    old, new = await jobs_of(manual)
    assert (old["state"], old["payload"], old["queue"], old["priority"]) == ("QUEUED", {"v": 1}, "default", 5)
    assert (new["state"], new["payload"], new["queue"]) == ("SCHEDULED", {"v": 2}, "other")
    await manual.call("queue.resume")
    await manual.settle()
    assert [job["state"] for job in await jobs_of(manual)] == ["DONE", "DONE"]


async def test_an_edit_that_leaves_the_times_alone_does_not_lose_the_one_that_is_due(manual: Harness) -> None:
    await put(manual, "@hourly")
    await leap(manual, HOUR - 1)
    again = await put(manual, "@hourly", param_overrides={"a": 1})
    assert again["next_trigger_at"] == START + HOUR
    await manual.advance(1)
    assert await fired(manual) == [START + HOUR]
    assert [job["payload"] for job in await jobs_of(manual)] == [{"a": 1}]


async def test_disabled_it_does_not_fire_and_enabled_again_it_makes_up_for_nothing(home: Path) -> None:
    clock = ManualClock()
    async with daemon(home, clock) as harness:
        await put(harness, "@hourly", misfire="run_all")
        await leap(harness, HOUR)
        answer = await harness.call("schedule.disable", schedule_id="s")
        assert (answer["enabled"], answer["next_trigger_at"]) == (False, None)
        assert (await view(harness))["upcoming"] == []
        await leap(harness, 3 * HOUR)
    async with daemon(home, clock, seed=1) as harness:
        await leap(harness, 3 * HOUR)
        assert await fired(harness) == [START + HOUR]
        answer = await harness.call("schedule.enable", schedule_id="s")
        assert answer["next_trigger_at"] == START + 8 * HOUR
        await leap(harness, HOUR)
        assert await fired(harness) == [START + HOUR, START + 8 * HOUR]
        assert await told(harness, "skipped") == []


async def test_a_trigger_by_hand_fires_once_and_leaves_the_next_time_alone(manual: Harness) -> None:
    made = await put(manual, "@daily", enabled=False, spec={"payload": {"a": 1}})
    answer = await manual.call("schedule.trigger", schedule_id=made["schedule_id"])
    await manual.settle()
    (job,) = await jobs_of(manual)
    assert (job["job_id"], job["state"], job["payload"]) == (answer["job"]["job_id"], "DONE", {"a": 1})
    assert await fired(manual) == [START]
    assert (await view(manual))["next_trigger_at"] is None


async def test_a_trigger_by_hand_keeps_to_overlap(timed: Harness, door: Doors) -> None:
    place = door("a")
    await put(timed, "@yearly", spec=HOLD, overlap="skip")
    first = await timed.call("schedule.trigger", schedule_id="s")
    await at_its_door(timed, place)
    second = await timed.call("schedule.trigger", schedule_id="s")
    assert (second["job"], second["skipped"]) == (None, "overlap")
    place.open.set()
    await timed.ended(first["job"]["job_id"])
    assert (await timed.call("schedule.trigger", schedule_id="s"))["skipped"] is None


async def test_a_deleted_schedule_fires_no_more_and_its_jobs_stay(manual: Harness) -> None:
    await manual.call("queue.pause")
    await put(manual, "@hourly")
    await leap(manual, 2 * HOUR)
    ids = [job["job_id"] for job in await jobs_of(manual)]
    assert [await manual.state(job_id) for job_id in ids] == ["QUEUED", "SCHEDULED"]
    await manual.call("schedule.delete", schedule_id="s")
    await leap(manual, 2 * HOUR)
    assert len((await manual.call("job.list"))["items"]) == 2
    await manual.call("queue.resume")
    await manual.settle()
    assert [await manual.state(job_id) for job_id in ids] == ["DONE", "DONE"]


async def test_what_cannot_be_made_is_told_and_tried_again_the_next_time(home: Path) -> None:
    """Its handler is gone from the config, and comes back."""
    clock = ManualClock()
    async with daemon(home, clock, sample_handlers.config()) as harness:
        await put(harness, "@hourly", spec={"job_type": "give", "payload": {"what": "number"}})
    async with daemon(home, clock, seed=1) as harness:
        await leap(harness, 2 * HOUR)
        failed = await told(harness, "failed")
        assert [(one["code"], one["trigger_at"]) for one in failed] == [
            ("E_NO_HANDLER", START + HOUR),
            ("E_NO_HANDLER", START + 2 * HOUR),
        ]
        assert (await view(harness))["next_trigger_at"] == START + 3 * HOUR
    async with daemon(home, clock, sample_handlers.config(), seed=2) as harness:
        await leap(harness, HOUR)
        assert await fired(harness) == [START + 3 * HOUR]


async def test_a_queue_that_is_full_is_told_and_harms_no_other_schedule(manual: Harness) -> None:
    await manual.call("queue.pause")
    await manual.call("queue.configure", queue="full", max_queued=1)
    await put(manual, "@hourly", "a", spec={"queue": "full"})
    await put(manual, "@hourly", "b", spec={"queue": "room"})
    await leap(manual, 2 * HOUR)
    assert await fired(manual, "a") == [START + HOUR]
    assert await fired(manual, "b") == [START + HOUR, START + 2 * HOUR]
    (failed,) = await told(manual, "failed", "a")
    assert (failed["code"], failed["trigger_at"]) == ("E_QUEUE_FULL", START + 2 * HOUR)


async def test_the_rest_of_a_template_holds_for_each_of_its_jobs(timed: Harness) -> None:
    """Retries, a delay and a condition; not only the payload."""
    spec: dict[str, Any] = {"job_type": "fail_async", "payload": {"how": "plain"}, "max_attempts": 2}
    spec["schedule"] = {"type": "AFTER", "delay_ms": 10_000, "wait_for_event": "e"}
    await put(timed, "@hourly", spec=spec)
    await leap(timed, HOUR)
    await timed.call("event.emit", key="e")
    await timed.advance(9999)
    assert [job["state"] for job in await jobs_of(timed)] == ["SCHEDULED"]
    await timed.advance(1 + 1100)
    assert [(job["state"], job["attempts"]) for job in await jobs_of(timed)] == [("FAILED", 2)]
