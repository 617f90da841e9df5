"""Schedules for the tests of the engine: put over the socket, and what the stream says of them."""

from datetime import datetime
from typing import Any

from tests.engine.stream import events
from tests.harness import Harness

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def instant(text: str) -> int:
    """2027-03-28 01:00 in UTC, as epoch ms."""
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


async def put(harness: Harness, cron: str | None, name: str = "s", **more: Any) -> Any:
    """A schedule with a template of its own; `spec` is the template's."""
    spec = {"job_type": "semantica.noop", **more.pop("spec", {})}
    await harness.call("template.put", name=f"t-{name}", spec=spec)
    return await harness.call("schedule.put", name=name, template_id=f"t-{name}", cron_expression=cron, **more)


async def view(harness: Harness, name: str = "s") -> Any:
    return await harness.call("schedule.get", schedule_id=name)


async def schedule_events(harness: Harness, what: str, name: str = "s") -> list[dict[str, Any]]:
    """The payloads of its events of one type, each with the time of the event as `at`."""
    found = await events(harness, f"schedule.{what}")
    return [one["payload"] | {"at": one["timestamp_at"]} for one in found if one["payload"]["name"] == name]


async def fired(harness: Harness, name: str = "s") -> list[int]:
    """For which instants it fired; each has made exactly one job, and no other job is its own."""
    payloads = await schedule_events(harness, "fired", name)
    jobs = await jobs_of(harness, name)
    assert sorted(one["job_id"] for one in payloads) == sorted(job["job_id"] for job in jobs)
    return [one["trigger_at"] for one in payloads]


async def jobs_of(harness: Harness, name: str = "s") -> list[dict[str, Any]]:
    """The jobs that it has made, the oldest first."""
    schedule_id = (await view(harness, name))["schedule_id"]
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = await harness.call("job.list", sort="oldest", limit=200, cursor=cursor)
        found += [job for job in page["items"] if job["schedule_id"] == schedule_id]
        cursor = page["next_cursor"]
        if cursor is None:
            return found
