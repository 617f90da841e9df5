"""How a job ended: as an exit code for scripts, and as a sentence for people."""

from errno import ENOENT

from semantica_daemon import prose
from semantica_daemon.cli.shell_hint import shell_hint
from semantica_daemon.client.exit_codes import NOT_FOUND, NOT_RUN, TIMED_OUT, WITHOUT_CODE
from semantica_daemon.client.json_types import Json

SENTENCES = {
    "CANCELLED": "was cancelled",
    "SUPERSEDED": "was superseded by a newer job",
    "SKIPPED_TTL": "was skipped: it waited for a slot longer than its --ttl",
    "SKIPPED_DEADLINE": "was skipped: its deadline passed before it started",
}


def exit_code(job: Json) -> int:
    """From `state`, `exit_code` and `error`, as job.get and job.logs return them."""
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


def sentence(job: Json, job_id: str) -> str:
    """For a job that is not DONE; only job.get and job.wait return what superseded it."""
    name = f"job {prose.short_id(job_id)}"
    if job.get("superseded_by") is not None:
        return f"{name} was superseded by {prose.short_id(job['superseded_by'])}"
    if job["state"] == "CANCELLED" and job.get("parent_count"):
        return (
            f"{name} was cancelled; `semantica why {prose.short_id(job_id)}` shows whether that was for a job it needs"
        )
    if job["state"] != "FAILED":
        return f"{name} {SENTENCES.get(job['state'], 'is ' + job['state'])}"
    error = job["error"] or {}
    if error.get("code") == "E_EXIT":
        return f"{name} failed with exit code {job['exit_code']}"
    hint = shell_hint((job.get("payload") or {}).get("argv") or []) if error.get("code") == "E_SPAWN" else ""
    return f"{name} failed: {error.get('message', 'no reason is known')}" + (f"; {hint}" if hint else "")


def exit_code_is_enough(job: Json) -> bool:
    """True for a command that ended by itself: no sentence is needed."""
    return job["state"] == "DONE" or (job["state"] == "FAILED" and (job["error"] or {}).get("code") == "E_EXIT")
