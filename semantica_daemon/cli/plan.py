"""`semantica plan`: what `semantica add` would do with the same arguments; nothing is stored."""

from semantica_daemon import prose
from semantica_daemon.cli import job_options, needs, payload, tables
from semantica_daemon.cli.command import Any, Command, Json, Terminal
from semantica_daemon.cli.format import now
from semantica_daemon.client.client import Client


def run(arguments: Any, terminal: Terminal) -> None:
    spec = job_options.job_spec(arguments)
    with terminal.client() as client:
        plan = client.call("job.plan", **payload.complete(client, needs.resolve(client, terminal.paths, spec)))
        now_free = [one["kind"] for one in plan["reasons"]] == ["slots"] and _slot_is_free(client, spec)
    terminal.show(plan, [*plan["would_supersede"], *plan["would_interrupt"]], lambda: _draw(plan, now_free, terminal))


def _slot_is_free(client: Client, spec: Json) -> bool:
    """Whether a job of this queue would start at once."""
    system, name = client.call("admin.stats")["system"], spec.get("queue", "default")
    queues = {one["queue"]: one for one in client.call("queue.list")["queues"]}
    queue = queues.get(name, {"paused": False, "queued": 0, "running": 0, "slots": 1})
    has_slot = not queue["paused"] and not queue["queued"] and queue["running"] < queue["slots"]
    return bool(has_slot and system["running"] < system["slots"])


def _draw(plan: Json, now_free: bool, terminal: Terminal) -> None:
    since, existing = now(), plan["existing"]
    starts = prose.start(plan["reasons"], since, lambda at: prose.instant(at, since))
    tables.pairs([
        ("existing", f"{existing} would be returned; nothing new is added" if existing else None),
        ("state", plan["state"]),
        ("starts", None if existing else "it would start now" if now_free else starts),
        *(("supersedes", job_id) for job_id in plan["would_supersede"]),
        *(("interrupts", job_id) for job_id in plan["would_interrupt"]),
    ])  # fmt: skip
    for warning in plan["warnings"]:
        terminal.note(warning)


COMMAND = Command(
    "Show what `semantica add` would do with the same arguments. Nothing is stored.",
    run,
    job_options.OF_RUN,
    "semantica plan --newest-wins a.py --on-running cancel -- lint a.py",
    job_options.USAGE_LINE.format("plan"),
)
