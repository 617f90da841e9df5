"""`semantica show`: everything about one job, and a table of its runs."""

import os
from collections.abc import Iterator

from semantica_daemon import prose
from semantica_daemon.cli import ids, needs, tables
from semantica_daemon.cli.command import Any, Command, Json, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.format import age, command, instant, optional, progress, short_json, size, took
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused
from semantica_daemon.client.exit_codes import DATA

RUN_COLUMNS: tables.Columns = {
    "run": "number",
    "attempt": "attempt",
    "status": "status",
    "started": lambda run: instant(run["started_at"]),
    "took": took,
    "exit": "exit_code",
    "worker": lambda run: optional(prose.short_id, run["worker_id"]),
    "error": lambda run: (run["error"] or {}).get("message"),
}
NAMED_FIELDS = {
    "tag": "user_tag", "group": "chain_group_id", "key": "idempotency_key", "template": "template_id",
    "schedule": "schedule_id", "subject": "subject_key", "concurrency key": "concurrency_key",
}  # fmt: skip
MOST_PARENTS = 10
NOT_KEPT = "secrets are kept in memory only, until the job ends or the daemon stops"
Rows = Iterator[tuple[str, object]]


def run(arguments: Any, terminal: Terminal) -> None:
    with terminal.client() as client:
        try:
            job = client.call("job.get", job_id=ids.resolve(client, terminal.paths, arguments.id))
        except CallRefused as refused:
            raise _schedule_of_that_id(client, arguments.id) or refused from None
        is_drawn = not (terminal.as_json or terminal.quiet)
        states = _states_of_parents(client, job) if is_drawn and job["parents"] else {}
    terminal.show(job, [job["job_id"]], lambda: _draw(job, states))


def _states_of_parents(client: Client, job: Json) -> dict[str, str]:
    """By id; of many parents, those of the first."""
    nodes = client.call("job.graph", job_id=job["job_id"], limit=2 * MOST_PARENTS + 1)["nodes"]
    return {node["job_id"]: node["state"] for node in nodes}


def _schedule_of_that_id(client: Client, text: str) -> CommandFailed | None:
    try:
        name = client.call("schedule.get", schedule_id=text)["name"]
    except CallRefused:
        return None
    return CommandFailed(f"that is schedule {name}", f"`semantica schedule show {name}` shows it", DATA)


def _draw(job: Json, states: dict[str, str]) -> None:
    waits = [*_parents(job, states), *_conditions(job)]
    tables.pairs([*_identity(job), *what_is_run(job), *_limits(job), *waits, *_times(job), *_result(job)])
    if job["runs"]:
        tables.heading("runs")
        counts_alike = all(run["attempt"] == run["number"] for run in job["runs"])
        has_workers = any(run["worker_id"] for run in job["runs"])
        unused = {"attempt" if counts_alike else "", "" if has_workers else "worker"}
        columns = {name: cell for name, cell in RUN_COLUMNS.items() if name not in unused}
        tables.table(columns, job["runs"], "error")


def _identity(job: Json) -> Rows:
    is_ending = job["cancel_requested_at"] and not job["finished_at"]
    notes = (" (asked to end)" if is_ending else "") + (" (stale: a newer job is waiting)" if job["stale"] else "")
    notes += "" if job["held_at"] is None else f" (held since {instant(job['held_at'])})"
    yield "id", job["job_id"]
    yield "state", job["state"] + notes
    yield "type", job["job_type"]
    for name, field in NAMED_FIELDS.items():
        yield name, job[field]
    yield "retry of", job["retry_of"]
    for other in job["retries"]:
        if other["retry_of"] == job["job_id"]:
            yield "retried by", f"{other['job_id']}, which is {other['state']}"
    yield "generation", None if job["subject_key"] is None else job["generation"]
    yield "supersede", job["supersede"] if job["subject_key"] is not None and job["supersede"] != "lane" else None
    slots = f", {job['slots']} slots" if job["slots"] > 1 else ""
    yield "queue", f"{job['queue']}, priority {job['priority']}{slots}"


def what_is_run(job: Json) -> Rows:
    payload = dict(job["payload"] or {})
    if job.get("gather") and "gathered" in payload:
        gathered, dropped = payload.pop("gathered"), payload.pop("gathered_dropped", 0)
        yield "gathered", prose.count(len(gathered), "payload") + (f", {dropped} dropped" if dropped else "")
    if not command(job):
        yield "payload", short_json(payload) if payload else None
        return
    yield "command", command(job)
    yield "folder", payload.get("cwd") or "-"
    yield "umask", optional("{:03o}".format, payload.get("umask"))
    yield "stdin", optional(lambda text: size(len(text.encode())), payload.get("stdin"))
    yield from _variables(job)


def _variables(job: Json) -> Rows:
    """The names of those that were set by name, and of those that came along and that not every job has."""
    came_along = job.get("environment") or {"names": [], "secrets": [], "left_out": []}
    named = job["env_vars"] or {}
    left_out = [name for name in came_along["left_out"] if name not in named]
    secrets = {name for name, value in named.items() if value == "***"} | set(came_along["secrets"]) - set(left_out)
    plain = set(came_along["names"]) | named.keys()
    names = sorted(plain | secrets)
    yield "environment", " ".join(f"{name}=***" if name in secrets else name for name in names) or None
    yield "left out", f"{' '.join(left_out)} ({NOT_KEPT})" if left_out else None


def _limits(job: Json) -> Rows:
    yield "attempts", f"{job['attempts']} of {max(1, job['max_attempts'])}"
    if job["max_attempts"] > 1:
        yield "backoff", _backoff(job)
        yield "retried after", optional(exit_codes, job["retry_on"])
    for name in ("timeout", "grace", "ttl"):
        yield name, optional(prose.duration, job[f"{name}_ms"])
    yield "deadline", optional(instant, job["deadline"])
    limits = job["limits"] or {}
    yield "memory", optional(size, limits.get("memory_bytes"))
    yield "cpu", optional(lambda percent: f"{percent} % of a core", limits.get("cpu_percent"))
    yield "nice", limits.get("nice")


def _backoff(job: Json) -> str:
    first, factor = prose.duration(job["backoff_base_ms"]), job["backoff_factor"]
    grows = f"{first} longer each time" if job["backoff"] == "linear" else f"{factor:g} times as long each time"
    return f"{first}, then {grows}, at most {prose.duration(job['backoff_max_ms'])}"


def exit_codes(retry_on: Json) -> str:
    return f"exit code {', '.join(map(str, retry_on['exit_codes']))}"


def _conditions(job: Json) -> Rows:
    """What it waits for besides a time, and when that came true."""
    lost = "; when that is lost, its run is ended and it waits again" if job["stop_when_lost"] else ""
    yield "needs", f"an idle machine{lost}" if job["wait_for_idle"] else None
    yield "needs", f"mains power{lost}" if job["require_charging"] else None
    if job["wait_for_event"] is not None:
        yield "needs", _event(job["wait_for_event"], None, job["event_met_at"])
    for one in job["conditions"]:
        yield "needs", _event(one["key"], one["value"], one["met_at"])
    if job["debounce_ms"] is not None:
        most = "" if job["max_wait_ms"] is None else f", waits {prose.duration(job['max_wait_ms'])} at most"
        yield "debounce", prose.duration(job["debounce_ms"]) + most


def _parents(job: Json, states: dict[str, str]) -> Rows:
    for job_id in job["parents"][:MOST_PARENTS]:
        state = f", which is {states[job_id]}" if job_id in states else ""
        yield "needs", f"job {job_id}{state}"
    more = job["parent_count"] - len(job["parents"][:MOST_PARENTS])
    yield "needs", prose.count(more, "more job") if more else None


def _event(key: str, value: str | None, met_at: int | None) -> str:
    """An event, or the end of another job."""
    met = "not yet" if met_at is None else instant(met_at)
    if key.startswith(needs.JOB):
        how = f" as {value}" if value else ""
        return f"the end of job {key.removeprefix(needs.JOB)}{how} ({met})"
    return f"event {key}{'' if value is None else f'={value}'} ({met if met_at is None else f'emitted {met}'})"


def _times(job: Json) -> Rows:
    yield "added", f"{instant(job['created_at'])} ({age(job['created_at'])} ago)"
    yield "due", optional(instant, job["scheduled_at"] if job["state"] == "SCHEDULED" else None)
    yield "started", optional(instant, job["started_at"])
    if job["finished_at"] is not None:
        after = "last run" if job["run_count"] > 1 else "after"
        yield "ended", instant(job["finished_at"]) + (f", {after} {took(job)}" if job["started_at"] else "")
    yield "archived", optional(lambda at: f"{instant(at)}; its files are deleted", job["archived_at"])
    yield "pid", job["pid"] if job["state"] == "RUNNING" else None


def _result(job: Json) -> Rows:
    error = job["error"]
    hint = f"`semantica logs {prose.short_id(job['job_id'])}` shows what it wrote"
    yield "progress", optional(progress, job["progress"])
    yield "superseded by", job["superseded_by"]
    yield "exit code", job["exit_code"]
    yield "error", f"{error['message']} ({error['code']}, {error['class']})" if error else None
    yield "hint", hint if error and job["log_path"] and os.path.exists(job["log_path"]) else None
    yield "result", optional(short_json, job["result_summary"])
    yield "log", job["log_path"]


COMMAND = Command(
    "Show everything about one job: its settings, how it ended, and each of its runs.",
    run,
    [ids.ONE_JOB],
    """
  semantica show @last
  semantica show 3f2a --json""",
)
