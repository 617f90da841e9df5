"""`semantica status`: one screen with the daemon, its queues, the live jobs and the last ones that ended."""

from semantica_daemon import VERSION, prose
from semantica_daemon.cli import ids, queue, show, tables
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.list import DEFAULT_LIMIT, LIVE, print_jobs
from semantica_daemon.cli.parser import Namespace, Parser, type_of
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.client import ENDED_STATES
from semantica_daemon.client.json_types import Json

TITLES = {"running": "running", "waiting": "waiting, oldest first", "ended": "ended, newest first"}


def run(arguments: Namespace, terminal: Terminal) -> int:
    if arguments.id is not None:
        return show.run(arguments, terminal)
    with terminal.client() as client:
        found: Json = {"health": client.call("admin.health"), "system": client.call("admin.stats")["system"]}
        found["queues"] = client.call("queue.list")["queues"]
        found["running"] = client.call("job.list", state=["RUNNING"], limit=DEFAULT_LIMIT)["items"]
        found["waiting"] = client.call("job.list", state=list(LIVE[1:]), sort="oldest", limit=10)["items"]
        found["ended"] = client.call("job.list", state=list(ENDED_STATES), limit=10)["items"]
    if terminal.as_json:
        terminal.print_json(found)
    elif terminal.quiet:
        for job in [*found["running"], *found["waiting"]]:
            terminal.print(job["job_id"])
    else:
        _print_screen(found, terminal)
    return 0


def _print_screen(found: Json, terminal: Terminal) -> None:
    health, system = found["health"], found["system"]
    up = f"up {prose.duration(health['uptime_ms'])}, pid {system['pid']}"
    slots = f"{system['running']} of {system['slots']} slots in use"
    terminal.print(f"semanticad {health['version']}  {health['status']}, {up}, {slots}")
    if health["version"] != VERSION:
        terminal.note(f"this command is version {VERSION}; after `semantica stop` the next command starts that version")
    tables.heading("queues")
    tables.table(queue.COLUMNS, [queue.row(one) for one in found["queues"]])
    for name, title in TITLES.items():
        if found[name]:
            tables.heading(title)
            print_jobs(found[name])


def options(parser: Parser) -> None:
    parser.add_argument("id", nargs="?", type=type_of(ids.check), metavar="ID", help="one job, as `semantica show`")


COMMAND = Command(
    "Show the daemon, its queues, the running and waiting jobs, and how the last jobs ended.",
    run,
    options,
    """
  semantica status
  semantica status @last

With --json: {"health": …, "system": …, "queues": […], "running": […], "waiting": […], "ended": […]}.""",
)
