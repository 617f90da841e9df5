"""`semantica status`: one screen with the daemon, its queues, the live jobs and the last ones that ended."""

from semantica_daemon import VERSION, prose
from semantica_daemon.cli import config, ids, job_table, other_folder, queue, reservations, schedule, show, tables
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.list import DEFAULT_LIMIT
from semantica_daemon.client.client import WAITING_STATES, Client

TITLES = {"running": "running", "waiting": "waiting, those in the queue first", "ended": "ended, the last one first"}
MOST_SHOWN = 10
ENDED = {**job_table.HIDDEN, **job_table.NOT_ARCHIVED}


def run(arguments: Any, terminal: Terminal) -> None:
    if arguments.id is not None:
        return show.run(arguments, terminal)
    with terminal.client() as client:
        found: Json = {"health": client.call("admin.health"), "system": client.call("admin.stats")["system"]}
        found["queues"] = client.call("queue.list")["queues"]
        found["schedules"] = client.call("schedule.list")["schedules"]
        found["running"] = client.call("job.list", state=["RUNNING"], limit=DEFAULT_LIMIT)["items"]
        found["waiting"] = _waiting(client)
        found["ended"] = client.call("job.list", sort="ended", limit=MOST_SHOWN, **ENDED)["items"]
        in_force = client.call("admin.config")
        starts = {} if terminal.as_json or terminal.quiet else job_table.starts_of(client, found["waiting"])
    live = [job["job_id"] for job in [*found["running"], *found["waiting"]]]
    terminal.show(found, live, lambda: _draw(found, starts, terminal))
    if text := other_folder.sentence(in_force, terminal.paths):
        terminal.note(f"{text}; {other_folder.hint(terminal.paths)}")
    for sentence in config.difference(in_force):
        terminal.note(sentence)


def _waiting(client: Client) -> list[Json]:
    """The first jobs that wait: those in a queue, then those that wait for something else, each oldest first."""
    found: list[Json] = []
    for state in WAITING_STATES:
        page = client.call("job.list", state=[state], sort="oldest", limit=MOST_SHOWN, **job_table.HIDDEN)
        found += page["items"][: MOST_SHOWN - len(found)]
    return found


def _draw(found: Json, starts: job_table.Starts, terminal: Terminal) -> None:
    health, system = found["health"], found["system"]
    up = f"up {prose.duration(health['uptime_ms'])}, pid {system['pid']}"
    slots = f"{system['running']} of {system['slots']} slots in use"
    terminal.print(f"semanticad {health['version']}  {health['status']}, {up}, {slots}")
    if system["reservation"] is not None:
        name = prose.short_id(system["reservation"]["reservation_id"])
        terminal.print(f"{reservations.sentence(system['reservation'])}: no other job starts (reservation {name})")
    if health["version"] != VERSION:
        terminal.note(f"this command is version {VERSION}; `semantica restart` starts the daemon of that version")
    queues = [one for one in found["queues"] if one["queue"] not in job_table.HIDDEN["except_queue"]]
    tables.heading("queues")
    tables.table(queue.COLUMNS, queues)
    for name, title in TITLES.items():
        if found[name]:
            tables.heading(title)
            job_table.draw(found[name], starts, ended=name == "ended")
        if name == "waiting" and (more := sum(_waits(one) for one in queues) - len(found[name])) > 0:
            terminal.print(f"… and {more} more: `semantica list --state waiting`")
    if found["schedules"]:
        tables.heading("schedules")
        tables.table(schedule.short_columns(found["schedules"]), found["schedules"])


def _waits(queue: Json) -> int:
    return int(queue["queued"] + queue["scheduled"])


OPTIONS = [Option("id ID", "one job, as `semantica show`", ids.check, nargs="?")]
COMMAND = Command(
    "Show the daemon, its queues and schedules, the running and waiting jobs, and how the last jobs ended.",
    run,
    OPTIONS,
    """
  semantica status
  semantica status @last

With --json: {"health": …, "system": …, "queues": […], "schedules": […], "running": […], "waiting": […],
"ended": […]}.""",
)
