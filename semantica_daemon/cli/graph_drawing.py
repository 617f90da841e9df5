"""The nodes and edges of job.graph as lines of text: a tree for each job without parents, or a Graphviz document."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from semantica_daemon import prose
from semantica_daemon.cli.format import clean, took
from semantica_daemon.client.json_types import Json

MOST_NAMED = 3
NARROWEST = 16
# By state: as `tables` colours them, in the codes of a terminal.
COLOURS = {
    "RUNNING": "36", "QUEUED": "34", "SCHEDULED": "34", "DONE": "32", "FAILED": "31", "CANCELLED": "33",
    "SUPERSEDED": "2", "SKIPPED_TTL": "2", "SKIPPED_DEADLINE": "2",
}  # fmt: skip
DOT_COLOURS = {"RUNNING": "turquoise", "DONE": "palegreen", "FAILED": "salmon", "CANCELLED": "khaki"}


class Characters(NamedTuple):
    """What a tree is drawn with. `next`: marks the only job that needs the one above it."""

    job: str
    next: str
    branch: str
    last: str
    line: str


BOXES = Characters("●", "↓", "├─", "└─", "│ ")
ASCII = Characters("*", "v", "|-", "`-", "| ")


def characters(environment: Mapping[str, str]) -> Characters:
    """ASCII unless the locale is one of UTF-8."""
    locale = next((environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), "")
    return BOXES if locale.lower().replace("-", "").endswith(("utf8", "utf8@euro")) else ASCII


class Row(NamedTuple):
    tree: str
    node: Json
    note: str


def lines(graph: Json, chars: Characters, width: int | None, coloured: bool) -> Iterator[str]:
    """`width`: of the terminal; the command of each job is cut so that its line fits. None: nothing is cut."""
    rows = list(_rows(graph, chars))
    tree = max(len(row.tree) for row in rows)
    state = max(len(row.node["state"]) for row in rows)
    times = max(len(took(row.node) or "") for row in rows)
    room = None if width is None else max(NARROWEST, width - tree - state - times - 6)
    for row in rows:
        name = f"{row.node['state']:<{state}}"
        shown = f"\x1b[{COLOURS[row.node['state']]}m{name}\x1b[0m" if coloured else name
        text = what(row.node) + (f"  ({row.note})" if row.note else "")
        cut = text if room is None or len(text) <= room else text[: room - 1] + ("…" if chars is BOXES else "~")
        yield f"{row.tree:<{tree}}  {shown}  {took(row.node) or '':>{times}}  {cut}".rstrip()


def what(node: Json) -> str:
    """The command, or the type of a job without one."""
    return clean(shlex.join(node["argv"]) if node["argv"] else node["job_type"])


def _rows(graph: Json, chars: Characters) -> Iterator[Row]:
    """Depth first. An only child stays in the column of its parent, so that a long chain does not move to the right."""
    nodes = {node["job_id"]: node for node in graph["nodes"]}
    parents: dict[str, list[str]] = {job_id: [] for job_id in nodes}
    for edge in graph["edges"]:
        parents[edge["job_id"]].append(edge["parent_id"])
    place = {job_id: number for number, job_id in enumerate(nodes)}
    below: dict[str, list[str]] = {job_id: [] for job_id in nodes}
    roots = [job_id for job_id in nodes if not parents[job_id]]
    for job_id in nodes:
        if parents[job_id]:
            below[max(parents[job_id], key=place.__getitem__)].append(job_id)
    pending = [(job_id, "", chars.job, "") for job_id in reversed(roots)]
    while pending:
        job_id, lead, marker, indent = pending.pop()
        note = _note(nodes[job_id], parents[job_id], place)
        yield Row(f"{lead}{marker} {prose.short_id(job_id)}", nodes[job_id], note)
        children = below[job_id]
        if len(children) == 1:
            pending.append((children[0], indent, chars.next, indent))
            continue
        for child in reversed(children):
            is_last = child == children[-1]
            turn = chars.last if is_last else chars.branch
            pending.append((child, indent + turn, chars.job, indent + ("  " if is_last else chars.line)))


def _note(node: Json, parents: list[str], place: dict[str, int]) -> str:
    """The jobs that it needs besides the one it is drawn below."""
    others = sorted(parents, key=place.__getitem__)[:-1]
    named = [prose.short_id(one) for one in others[:MOST_NAMED]]
    more = len(others) - len(named) + node["hidden_parents"]
    named += [prose.count(more, "more job")] if named and more else [prose.count(more, "job")] if more else []
    hidden = " not shown here" if node["hidden_parents"] and not others else ""
    return f"{'also ' if parents else ''}needs {', '.join(named)}{hidden}" if named else ""


def dot(graph: Json) -> Iterator[str]:
    """A document for Graphviz."""
    yield "digraph semantica {"
    yield '  node [shape=box, style=filled, fontname="sans-serif"];'
    for node in graph["nodes"]:
        label = f"{what(node)}\n{prose.short_id(node['job_id'])} {node['state']}"
        colour = DOT_COLOURS.get(node["state"], "white")
        yield f"  {_quoted(node['job_id'])} [label={_quoted(label)}, fillcolor={colour}];"
    for edge in graph["edges"]:
        yield f"  {_quoted(edge['parent_id'])} -> {_quoted(edge['job_id'])};"
    yield "}"


def _quoted(text: str) -> str:
    """A JSON string is one of Graphviz too, as far as its escapes are concerned: a backslash, a quote, a new line."""
    return json.dumps(text, ensure_ascii=False)
