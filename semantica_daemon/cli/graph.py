"""`semantica graph`: jobs and the jobs that they need, drawn as trees. `graph_drawing` makes the lines."""

import os
import shutil
import sys

from semantica_daemon.cli import graph_drawing, ids
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import positive
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused
from semantica_daemon.client.exit_codes import DATA

MOST = 1000
NOTHING = "no chain is waiting or running; `semantica add --needs ID -- COMMAND` makes one"


def run(arguments: Any, terminal: Terminal) -> None:
    if arguments.dot and terminal.as_json:
        raise CommandFailed("--dot and --json are both given", "give only one of them")
    if arguments.what and arguments.group:
        raise CommandFailed("graph: a job and --group are both given", "give only one of them")
    if arguments.limit > MOST:
        raise CommandFailed(f"graph: --limit: at most {MOST} jobs are drawn", "name a job: the nearest ones are drawn")
    with terminal.client() as client:
        found = _found(client, terminal, arguments)
    if not found["nodes"]:
        return terminal.show(found, draw=lambda: terminal.note(NOTHING))
    draw = _print_dot if arguments.dot else _draw
    terminal.show(found, [node["job_id"] for node in found["nodes"]], lambda: draw(terminal, found))
    if found["truncated"]:
        more = "name one job to see those around it" if arguments.limit >= MOST else f"--limit {MOST} shows more"
        terminal.note(f"there are more jobs than these {len(found['nodes'])}: {more}")


def _found(client: Client, terminal: Terminal, arguments: Any) -> Json:
    """The graph of a job, else of a group of that name; without a name, the live chains."""
    what, limit = arguments.what or arguments.group, arguments.limit
    if what is None:
        return dict(client.call("job.graph", limit=limit))
    if arguments.group is None and _may_be_id(what):
        try:
            return dict(client.call("job.graph", job_id=ids.resolve(client, terminal.paths, what), limit=limit))
        except CallRefused as refused:
            if refused.data.get("code") != "E_JOB_NOT_FOUND":
                raise
    found: Json = client.call("job.graph", chain_group_id=what, limit=limit)
    if not found["nodes"]:
        kinds = "group" if arguments.group else "job and no group"
        raise CommandFailed(f"there is no {kinds} {what}", "`semantica list` shows the jobs", DATA)
    return found


def _may_be_id(text: str) -> bool:
    try:
        return bool(ids.check(text))
    except ValueError:
        return False


def _draw(terminal: Terminal, found: Json) -> None:
    width, coloured = None, False
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        coloured = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    for line in graph_drawing.lines(found, graph_drawing.characters(os.environ), width, coloured):
        terminal.print(line)


def _print_dot(terminal: Terminal, found: Json) -> None:
    for line in graph_drawing.dot(found):
        terminal.print(line)


COMMAND = Command(
    "Draw jobs and the jobs that they need, with their states: a job with its ancestors and descendants, the jobs of a "
    "group, or all chains that are waiting or running.",
    run,
    [
        Option("what ID|GROUP", "a job, by its id, a prefix or @last, or a group", nargs="?"),
        Option("-g, --group GROUP", "the jobs of this group, for a name that may also be a job's id"),
        Option("--dot", "print the graph for Graphviz: semantica graph --dot | dot -Tsvg > jobs.svg"),
        Option("-n, --limit N", f"at most this many jobs (200, up to {MOST})", positive, default=200),
    ],
    """
  semantica graph
  semantica graph @last
  semantica graph nightly
  semantica graph nightly --dot | dot -Tsvg > nightly.svg

A job is drawn below the job that it needs; one that needs several is drawn below the newest of them, with the names of
the others. With --json: the result of job.graph, {"nodes": […], "edges": […], "truncated": …}.""",
)
