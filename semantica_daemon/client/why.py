"""Why a job has not started yet, as far as its queue and its lane show it."""

from semantica_daemon.client import words
from semantica_daemon.client.connection import Client
from semantica_daemon.client.ids import short
from semantica_daemon.client.shapes import Json

MOST = 200
SOON_MS = 500


def waits(client: Client, job_id: str) -> str | None:
    """The rest of a sentence that begins "job … waits: "; None when it does not wait any more."""
    job = client.call("job.get", job_id=job_id)
    if job["state"] == "SCHEDULED":
        return _scheduled(job)
    if job["state"] != "QUEUED":
        return None
    queues = client.call("queue.list")["queues"]
    queue = next((one for one in queues if one["queue"] == job["queue"]), None)
    if queue is not None and queue["paused"]:
        until = f" until {words.moment(queue['resume_at'])}" if queue["resume_at"] else ""
        name = "" if all(one["paused"] for one in queues) else f" {job['queue']}"
        return f"queue {job['queue']} is paused{until} (`semantica queue resume{name}`)"
    return _lane(client, job) or _ahead(client, job, queue)


def _scheduled(job: Json) -> str | None:
    if job["scheduled_at"] is None:
        return "it is not due yet"
    left = job["scheduled_at"] - words.now()
    if left < SOON_MS:
        return None
    what = "its next attempt" if job["attempts"] else "it"
    return f"{what} is scheduled for {words.moment(job['scheduled_at'])}, in {words.length(left)}"


def _lane(client: Client, job: Json) -> str | None:
    """Of one subject and type, one runs at a time."""
    if job["subject_key"] is None or job["supersede"] == "none":
        return None
    lane = {"subject_key": job["subject_key"], "job_type": [job["job_type"]], "state": ["RUNNING"]}
    running = client.call("job.list", **lane, limit=1)["items"]
    return f"job {short(running[0]['job_id'])} of the same subject is still running" if running else None


def _ahead(client: Client, job: Json, queue: Json | None) -> str:
    waiting = client.call("job.list", queue=[job["queue"]], state=["QUEUED"], sort="oldest", limit=MOST)
    before = sum(_order(one) < _order(job) for one in waiting["items"])
    more = "at least " if waiting["next_cursor"] else ""
    slots = f"{queue['running']} of {queue['slots']} slots in use" if queue else "its slots are in use"
    if not before:
        return f"no slot is free for queue {job['queue']} ({slots})"
    return f"{more}{words.many(before, 'job')} ahead of it in queue {job['queue']} ({slots})"


def _order(job: Json) -> tuple[int, int, int, str]:
    return -job["priority"], job["position"], job["created_at"], job["job_id"]
