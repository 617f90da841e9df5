"""`semantica machine`: whether the machine is idle and on mains power, and which source reports it."""

from semantica_daemon import prose
from semantica_daemon.cli import tables
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.parser import Namespace
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.json_types import Json

COLUMNS = ("kind", "source", "answer", "quiet for", "detail")


def run(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("machine.get")
    if terminal.as_json:
        terminal.print_json(found)
        return 0
    tables.pairs([("idle", idle(found)), ("power", power(found)), ("watching", _watching(found))])
    if found["sources"] and not terminal.quiet:
        tables.heading("sources, the first answer counts")
        tables.table(COLUMNS, [_row(source) for source in found["sources"]], "detail")
    return 0


def idle(found: Json) -> str:
    needed = prose.duration(found["idle_ms"])
    if found["idle"] is None:
        return f"not known, which counts as no (idle is {needed} without input)"
    idle_for_ms = found["idle_for_ms"]
    why = "" if idle_for_ms is None else f": {prose.duration(idle_for_ms)} without activity, {needed} needed"
    return f"{'yes' if found['idle'] else 'no'}{why} (source: {found['idle_source']})"


def power(found: Json) -> str:
    text = {True: "on mains", False: "on battery", None: "not known, which counts as battery"}[found["charging"]]
    return text + (f" (source: {found['power_source']})" if found["power_source"] else "")


def _watching(found: Json) -> str:
    return (
        f"{' and '.join(found['watching'])}, because jobs wait for it" if found["watching"] else "nothing at the moment"
    )


def _row(source: Json) -> list[object]:
    answer = {True: "yes", False: "no", None: "-"}[source["answer"]]
    quiet = "-" if source["idle_for_ms"] is None else prose.duration(source["idle_for_ms"])
    return [source["kind"], source["source"], answer, quiet, source["detail"] or "-"]


COMMAND = Command(
    "Show whether the machine is idle and on mains power, and what each source reports. `--when-idle` and `--on-power` "
    "depend on it.",
    run,
    examples="""
  semantica machine
  semantica machine --json | jq .idle
  semantica rpc machine.activity '{"source": "myeditor"}'     reports that the user is typing""",
)
