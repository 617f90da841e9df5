"""`semantica show`: everything a person wants to know of one job."""

import json

from semantica_daemon.client import draw, ids, words
from semantica_daemon.client.parser import Command, Namespace, Parser, of
from semantica_daemon.client.shapes import Any, Json
from semantica_daemon.client.terminal import Terminal

RUN_COLUMNS = ("run", "status", "started", "took", "exit", "error")
LONGEST = 2000
NAMED = {
    "tag": "user_tag", "group": "chain_group_id", "key": "idempotency_key", "template": "template_id",
    "schedule": "schedule_id", "subject": "subject_key",
}  # fmt: skip


def show(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        job = client.call("job.get", job_id=ids.resolve(client, terminal.where, arguments.id))
    if terminal.as_json:
        terminal.document(job)
    elif terminal.quiet:
        terminal.data(job["job_id"])
    else:
        draw.pairs([*_identity(job), *_work(job), *_rules(job), *_waits(job), *_times(job), *_end(job)])
        if job["runs"]:
            draw.heading("runs")
            draw.table(RUN_COLUMNS, [_run(run) for run in job["runs"]], "error")
    return 0


def what(job: Json) -> str:
    """In a few words: the command line, the subject, or nothing."""
    argv = command(job)
    return str(argv or job["subject_key"] or job["user_tag"] or "-")


def command(job: Json) -> str:
    """As one would type it."""
    argv = (job["payload"] or {}).get("argv") if job["execution_mode"] == "SUBPROCESS" else None
    return " ".join(_quoted(str(word)) for word in argv) if argv else ""


def _quoted(word: str) -> str:
    plain = word and all(char.isalnum() or char in "@%+=:,./-_" for char in word)
    return word if plain else "'" + word.replace("'", "'\"'\"'") + "'"


def took(job: Json) -> str:
    """Of a job or a run: how long it ran, or has run so far."""
    if job["started_at"] is None:
        return "-"
    return words.length((job["finished_at"] or words.now()) - job["started_at"])


def _identity(job: Json) -> list[tuple[str, object]]:
    state = job["state"]
    if job["cancel_requested_at"] and not job["finished_at"]:
        state += " (asked to end)"
    if job["stale"]:
        state += " (stale: a newer one is waiting)"
    rows: list[tuple[str, object]] = [("id", job["job_id"]), ("state", state), ("type", job["job_type"])]
    rows += [(name, job[field]) for name, field in NAMED.items() if job[field] is not None]
    if job["subject_key"] is not None:
        rows.append(("generation", job["generation"]))
    return [*rows, ("queue", f"{job['queue']}, priority {job['priority']}")]


def _work(job: Json) -> list[tuple[str, object]]:
    payload = job["payload"] or {}
    if not command(job):
        return [("payload", brief(payload))] if payload else []
    rows: list[tuple[str, object]] = [("command", command(job)), ("folder", payload.get("cwd") or "-")]
    if payload.get("umask") is not None:
        rows.append(("umask", f"{payload['umask']:03o}"))
    if payload.get("stdin") is not None:
        rows.append(("stdin", words.size(len(payload["stdin"].encode()))))
    variables = job["env_vars"] or {}
    if variables:
        hidden = (f"{name}=***" if value == "***" else name for name, value in sorted(variables.items()))
        rows.append(("environment", " ".join(hidden)))
    return rows


def brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def _rules(job: Json) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [("attempts", f"{job['attempts']} of {max(1, job['max_attempts'])}")]
    for name in ("timeout", "grace", "ttl"):
        if job[f"{name}_ms"] is not None:
            rows.append((name, words.length(job[f"{name}_ms"])))
    if job["deadline"] is not None:
        rows.append(("deadline", words.moment(job["deadline"])))
    return rows


def _waits(job: Json) -> list[tuple[str, object]]:
    """What it needs besides a time, and since when that has come true."""
    rows: list[tuple[str, object]] = []
    for word, field in (("an idle machine", "wait_for_idle"), ("mains power", "require_charging")):
        if job[field]:
            lost = "; ended and put back when that is lost" if job["stop_when_lost"] else ""
            rows.append(("needs", word + lost))
    if job["wait_for_event"] is not None:
        rows.append(("needs", f"event {job['wait_for_event']}{_met(job['event_met_at'])}"))
    for one in job["conditions"]:
        rows.append(("needs", f"event {one['key']}={one['value']}{_met(one['met_at'])}"))
    if job["debounce_ms"] is not None:
        most = f", waits {words.length(job['max_wait_ms'])} at most" if job["max_wait_ms"] is not None else ""
        rows.append(("debounce", words.length(job["debounce_ms"]) + most))
    return rows


def _met(at: int | None) -> str:
    return " (not yet)" if at is None else f" (came at {words.moment(at)})"


def _times(job: Json) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [
        ("added", f"{words.moment(job['created_at'])} ({words.age(job['created_at'])} ago)")
    ]
    if job["state"] == "SCHEDULED" and job["scheduled_at"] is not None:
        rows.append(("due", words.moment(job["scheduled_at"])))
    if job["started_at"] is not None:
        rows.append(("started", words.moment(job["started_at"])))
    if job["finished_at"] is not None:
        rows.append(("ended", f"{words.moment(job['finished_at'])}, after {took(job)}" if job["started_at"] else
                     words.moment(job["finished_at"])))  # fmt: skip
    if job["pid"] is not None and job["state"] == "RUNNING":
        rows.append(("pid", job["pid"]))
    return rows


def _end(job: Json) -> list[tuple[str, object]]:
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
            rows.append(("hint", f"`semantica logs {ids.short(job['job_id'])}` shows what it wrote"))
    if job["result_summary"] is not None:
        rows.append(("result", brief(job["result_summary"])))
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


def _run(run: Json) -> list[object]:
    error = run["error"] or {}
    code = "-" if run["exit_code"] is None else run["exit_code"]
    return [run["attempt"], run["status"], words.moment(run["started_at"]), took(run), code, error.get("message", "-")]


def options(parser: Parser) -> None:
    parser.add_argument("id", type=of(ids.check), metavar="ID", help="an id, the beginning of one, or @last")


SHOW = Command(
    "Everything about one job: what it is, what became of it, and each of its runs.",
    show,
    options,
    """
  semantica show @last
  semantica show 3f2a --json""",
)
