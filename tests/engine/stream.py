"""The whole stream, or one job's part of it, page by page."""

from typing import Any

from tests.harness import Harness


async def events(harness: Harness, *event_types: str, job_id: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    since = 0
    while True:
        asked: dict[str, Any] = {"since": since, "limit": 1000, "event_types": list(event_types) or None}
        page = await harness.call("event.list", **asked, **({"job_id": job_id} if job_id else {}))
        found += page["events"]
        if page["next_sequence"] == since:
            return found
        since = page["next_sequence"]


async def types_of(harness: Harness, job_id: str) -> list[str]:
    return [one["event_type"] for one in await events(harness, job_id=job_id)]
