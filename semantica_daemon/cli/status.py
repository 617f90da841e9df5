"""`semantica status`: one screen with the daemon, its queues, the live jobs and the last ones that ended."""

import os

from semantica_daemon import VERSION, prose
from semantica_daemon.cli import ids, job_table, queue, show, tables
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.list import DEFAULT_LIMIT
from semantica_daemon.cli.selection import LIVE
from semantica_daemon.client.client import ENDED_STATES
from semantica_daemon.paths import Paths, printable

OTHER_FOLDER_HINT = "set SEMANTICA_HOME to that folder, or SEMANTICA_SOCKET to a socket of your own"
TITLES = {"running": "running", "waiting": "waiting, oldest first", "ended": "ended, newest first"}


def run(arguments: Any, terminal: Terminal) -> None:
    if arguments.id is not None:
        return show.run(arguments, terminal)
    with terminal.client() as client:
        found: Json = {"health": client.call("admin.health"), "system": client.call("admin.stats")["system"]}
        found["queues"] = client.call("queue.list")["queues"]
        found["running"] = client.call("job.list", state=["RUNNING"], limit=DEFAULT_LIMIT)["items"]
        found["waiting"] = client.call("job.list", state=list(LIVE[1:]), sort="oldest", limit=10)["items"]
        found["ended"] = client.call("job.list", state=list(ENDED_STATES), limit=10)["items"]
        other_folder = uses_other_folder(client.call("admin.config"), terminal.paths)
        starts = {} if terminal.as_json or terminal.quiet else job_table.starts_of(client, found["waiting"])
    live = [job["job_id"] for job in [*found["running"], *found["waiting"]]]
    terminal.show(found, live, lambda: _draw(found, starts, terminal))
    if other_folder:
        terminal.note(f"{other_folder}: {OTHER_FOLDER_HINT}")


def uses_other_folder(config: Json, paths: Paths) -> str:
    """Returns a sentence when the daemon on this socket has another data folder than this shell would use, else ""."""
    of_daemon, of_shell = config["paths"]["data"], printable(paths.data)
    if os.path.realpath(of_daemon) == os.path.realpath(of_shell):
        return ""
    return f"the daemon on {printable(paths.socket)} uses the data folder {of_daemon}, this shell would use {of_shell}"


def _draw(found: Json, starts: job_table.Starts, terminal: Terminal) -> None:
    health, system = found["health"], found["system"]
    up = f"up {prose.duration(health['uptime_ms'])}, pid {system['pid']}"
    slots = f"{system['running']} of {system['slots']} slots in use"
    terminal.print(f"semanticad {health['version']}  {health['status']}, {up}, {slots}")
    if health["version"] != VERSION:
        terminal.note(f"this command is version {VERSION}; `semantica restart` starts the daemon of that version")
    tables.heading("queues")
    tables.table(queue.COLUMNS, found["queues"])
    for name, title in TITLES.items():
        if found[name]:
            tables.heading(title)
            job_table.draw(found[name], starts)


OPTIONS = [Option("id ID", "one job, as `semantica show`", ids.check, nargs="?")]
COMMAND = Command(
    "Show the daemon, its queues, the running and waiting jobs, and how the last jobs ended.",
    run,
    OPTIONS,
    """
  semantica status
  semantica status @last

With --json: {"health": …, "system": …, "queues": […], "running": […], "waiting": […], "ended": […]}.""",
)
