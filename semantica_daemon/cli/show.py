"""`semantica show`: everything about one job, and a table of its runs."""

from semantica_daemon import prose
from semantica_daemon.cli import format, ids, tables
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.job_text import command, short_json, took
from semantica_daemon.cli.parser import Namespace, Parser, type_of
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.json_types import Json

RUN_COLUMNS = ("run", "status", "started", "took", "exit", "error")
NAMED_FIELDS = {
    "tag": "user_tag", "group": "chain_group_id", "key": "idempotency_key", "template": "template_id",
    "schedule": "schedule_id", "subject": "subject_key",
}  # fmt: skip


def run(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        job = client.call("job.get", job_id=ids.resolve(client, terminal.paths, arguments.id))
    if terminal.as_json:
        terminal.print_json(job)
    elif terminal.quiet:
        terminal.print(job["job_id"])
    else:
        tables.pairs(
            [*_identity(job), *_what_is_run(job), *_limits(job), *_conditions(job), *_times(job), *_result(job)]
        )
        if job["runs"]:
            tables.heading("runs")
            tables.table(RUN_COLUMNS, [_run_row(one) for one in job["runs"]], "error")
    return 0


def _identity(job: Json) -> list[tuple[str, object]]:
    state = job["state"]
    if job["cancel_requested_at"] and not job["finished_at"]:
        state += " (asked to end)"
    if job["stale"]:
        state += " (stale: a newer job is waiting)"
    rows: list[tuple[str, object]] = [("id", job["job_id"]), ("state", state), ("type", job["job_type"])]
    rows += [(name, job[field]) for name, field in NAMED_FIELDS.items() if job[field] is not None]
    if job["subject_key"] is not None:
        rows.append(("generation", job["generation"]))
    return [*rows, ("queue", f"{job['queue']}, priority {job['priority']}")]


def _what_is_run(job: Json) -> list[tuple[str, object]]:
    payload = job["payload"] or {}
    if not command(job):
        return [("payload", short_json(payload))] if payload else []
    rows: list[tuple[str, object]] = [("command", command(job)), ("folder", payload.get("cwd") or "-")]
    if payload.get("umask") is not None:
        rows.append(("umask", f"{payload['umask']:03o}"))
    if payload.get("stdin") is not None:
        rows.append(("stdin", format.size(len(payload["stdin"].encode()))))
    variables = job["env_vars"] or {}
    if variables:
        hidden = (f"{name}=***" if value == "***" else name for name, value in sorted(variables.items()))
        rows.append(("environment", " ".join(hidden)))
    return rows


def _limits(job: Json) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [("attempts", f"{job['attempts']} of {max(1, job['max_attempts'])}")]
    for name in ("timeout", "grace", "ttl"):
        if job[f"{name}_ms"] is not None:
            rows.append((name, prose.duration(job[f"{name}_ms"])))
    if job["deadline"] is not None:
        rows.append(("deadline", format.instant(job["deadline"])))
    return rows


def _conditions(job: Json) -> list[tuple[str, object]]:
    """What it waits for besides a time, and when that came true."""
    rows: list[tuple[str, object]] = []
    for word, field in (("an idle machine", "wait_for_idle"), ("mains power", "require_charging")):
        if job[field]:
            lost = "; when that is lost, its run is ended and it waits again" if job["stop_when_lost"] else ""
            rows.append(("needs", word + lost))
    if job["wait_for_event"] is not None:
        rows.append(("needs", f"event {job['wait_for_event']}{_met(job['event_met_at'])}"))
    for one in job["conditions"]:
        rows.append(("needs", f"event {one['key']}={one['value']}{_met(one['met_at'])}"))
    if job["debounce_ms"] is not None:
        most = f", waits {prose.duration(job['max_wait_ms'])} at most" if job["max_wait_ms"] is not None else ""
        rows.append(("debounce", prose.duration(job["debounce_ms"]) + most))
    return rows


def _met(at: int | None) -> str:
    return " (not yet)" if at is None else f" (emitted {format.instant(at)})"


def _times(job: Json) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [
        ("added", f"{format.instant(job['created_at'])} ({format.age(job['created_at'])} ago)")
    ]
    if job["state"] == "SCHEDULED" and job["scheduled_at"] is not None:
        rows.append(("due", format.instant(job["scheduled_at"])))
    if job["started_at"] is not None:
        rows.append(("started", format.instant(job["started_at"])))
    if job["finished_at"] is not None:
        rows.append(("ended", f"{format.instant(job['finished_at'])}, after {took(job)}" if job["started_at"] else
                     format.instant(job["finished_at"])))  # fmt: skip
    if job["pid"] is not None and job["state"] == "RUNNING":
        rows.append(("pid", job["pid"]))
    return rows


def _result(job: Json) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    if job["progress"]:
        rows.append(("progress", _progress(job["progress"])))
    if job["superseded_by"] is not None:
        rows.append(("superseded by", job["superseded_by"]))
    if job["exit_code"] is not None:
        rows.append(("exit code", job["exit_code"]))
    if job["error"]:
        rows.append(("error", f"{job['error']['message']} ({job['error']['code']}, {job['error']['class']})"))
        if job["log_path"]:
            rows.append(("hint", f"`semantica logs {prose.short_id(job['job_id'])}` shows what it wrote"))
    if job["result_summary"] is not None:
        rows.append(("result", short_json(job["result_summary"])))
    if job["log_path"]:
        rows.append(("log", job["log_path"]))
    return rows


def _progress(progress: Json) -> str:
    parts = []
    if progress["percent"] is not None:
        parts.append(f"{progress['percent']:g} %")
    if progress["items_completed"] is not None:
        parts.append(f"{progress['items_completed']} of {progress['items_total'] or '?'}")
    return ", ".join([*parts, *(str(progress[name]) for name in ("phase", "message") if progress[name])])


def _run_row(run: Json) -> list[object]:
    error = run["error"] or {}
    code = "-" if run["exit_code"] is None else run["exit_code"]
    return [
        run["attempt"],
        run["status"],
        format.instant(run["started_at"]),
        took(run),
        code,
        error.get("message", "-"),
    ]


def options(parser: Parser) -> None:
    parser.add_argument("id", type=type_of(ids.check), metavar="ID", help="an id, a prefix of one, or @last")


COMMAND = Command(
    "Show everything about one job: its settings, how it ended, and each of its runs.",
    run,
    options,
    """
  semantica show @last
  semantica show 3f2a --json""",
)
