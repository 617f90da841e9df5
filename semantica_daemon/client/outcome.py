"""How a job ended: the exit code that tells a script, and the sentence that tells a person."""

from errno import ENOENT

from semantica_daemon.client.codes import NOT_FOUND, NOT_RUN, TIMED_OUT, WITHOUT_CODE
from semantica_daemon.client.ids import short
from semantica_daemon.client.shapes import Json

SENTENCES = {
    "CANCELLED": "was cancelled",
    "SUPERSEDED": "was superseded by a newer one",
    "SKIPPED_TTL": "was skipped: it waited longer than its --ttl for a slot",
    "SKIPPED_DEADLINE": "was skipped: its deadline passed before it started",
}


def code(job: Json) -> int:
    """Of `state`, `exit_code` and `error`, as job.get and job.logs give them."""
    if job["state"] == "DONE":
        return int(job["exit_code"] or 0)
    if job["state"] != "FAILED":
        return WITHOUT_CODE
    error = job["error"] or {}
    details = error.get("details") or {}
    kind = error.get("code")
    if kind == "E_TIMEOUT":
        return TIMED_OUT
    if kind == "E_SIGNAL" and isinstance(details.get("signal"), int):
        return 128 + int(details["signal"])
    if kind == "E_SPAWN":
        return NOT_FOUND if (details.get("of"), details.get("errno")) == ("command", ENOENT) else NOT_RUN
    return int(job["exit_code"] or WITHOUT_CODE)


def sentence(job: Json, job_id: str, superseded_by: str | None = None) -> str:
    """Nothing for DONE."""
    who = f"job {short(job_id)}"
    if job["state"] == "DONE":
        return ""
    if superseded_by is not None:
        return f"{who} was superseded by {short(superseded_by)}"
    if job["state"] != "FAILED":
        return f"{who} {SENTENCES.get(job['state'], 'is ' + job['state'])}"
    error = job["error"] or {}
    if error.get("code") == "E_EXIT":
        return f"{who} failed with exit code {job['exit_code']}"
    return f"{who} failed: {error.get('message', 'no reason is known')}"


def is_plain(job: Json) -> bool:
    """A command that did what commands do: its exit code says it all."""
    return job["state"] == "DONE" or (job["state"] == "FAILED" and (job["error"] or {}).get("code") == "E_EXIT")
