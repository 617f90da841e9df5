"""`semantica workers`: the external workers, which of them are alive, and what they run."""

from semantica_daemon import prose
from semantica_daemon.cli import tables
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.format import age


def _alive(worker: Json) -> str:
    return "yes" if worker["alive"] else "left" if worker["left_at"] else "no"


def _running(worker: Json) -> str | None:
    return ", ".join(prose.short_id(run["job_id"]) for run in worker["runs"][:3]) + _more(worker) or None


def _more(worker: Json) -> str:
    return f" and {len(worker['runs']) - 3} more" if len(worker["runs"]) > 3 else ""


COLUMNS: tables.Columns = {
    "name": "name",
    "id": lambda worker: prose.short_id(worker["worker_id"]),
    "alive": _alive,
    "running": _running,
    "done": "items_processed",
    "failed": "items_failed",
    "heartbeat": lambda worker: f"{age(worker['last_heartbeat'])} ago",
    "pid": "pid",
    "queues": lambda worker: "all" if worker["queues"] is None else ", ".join(worker["queues"]),
    "types": lambda worker: "all" if worker["job_types"] is None else ", ".join(worker["job_types"]),
}
NOTHING = "no worker has registered; docs/workers.md has one to copy"


def run(arguments: Any, terminal: Terminal) -> None:
    found = terminal.call("worker.list")
    if not arguments.all:
        found["workers"] = [one for one in found["workers"] if one["alive"] or one["runs"]]
    nothing = NOTHING if arguments.all else "no worker is alive; --all lists those of the last day"
    ids = [one["worker_id"] for one in found["workers"]]
    terminal.show(found, ids, lambda: tables.table(COLUMNS, found["workers"], "types", nothing, ("pid", "queues")))


COMMAND = Command(
    "External workers: which are alive, what they run, and how many jobs each has done.",
    run,
    [Option("-a, --all", "also workers that have left, or were silent for two of their lease times")],
    """
  semantica workers
  semantica workers --all
  semantica add --external --type resize --payload '{"file": "a.png"}'    a job for them""",
)
