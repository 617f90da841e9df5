"""`semantica machine`: whether it is idle and on power, and who says so. Jobs that wait for either go by it."""

from semantica_daemon.client import draw, words
from semantica_daemon.client.parser import Command, Namespace
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Terminal

COLUMNS = ("kind", "source", "says", "quiet for", "detail")


def machine(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("machine.get")
    if terminal.as_json:
        terminal.document(found)
        return 0
    draw.pairs([("idle", idle(found)), ("power", power(found)), ("watched", _watched(found))])
    if found["sources"] and not terminal.quiet:
        draw.heading("sources, the first answer counts")
        draw.table(COLUMNS, [_row(source) for source in found["sources"]], "detail")
    return 0


def idle(found: Json) -> str:
    needed = words.length(found["idle_ms"])
    if found["idle"] is None:
        return f"not known, which counts as no (idle is {needed} without input)"
    quiet = "" if found["idle_for_ms"] is None else f", quiet for {words.length(found['idle_for_ms'])} of {needed}"
    return f"{'yes' if found['idle'] else 'no'}{quiet} (by {found['idle_source']})"


def power(found: Json) -> str:
    told = {True: "on mains", False: "on battery", None: "not known, which counts as battery"}[found["charging"]]
    return told + (f" (by {found['power_source']})" if found["power_source"] else "")


def _watched(found: Json) -> str:
    return f"{' and '.join(found['watching'])}: jobs wait for it" if found["watching"] else "nothing at the moment"


def _row(source: Json) -> list[object]:
    answer = {True: "yes", False: "no", None: "-"}[source["answer"]]
    quiet = "-" if source["idle_for_ms"] is None else words.length(source["idle_for_ms"])
    return [source["kind"], source["source"], answer, quiet, source["detail"] or "-"]


MACHINE = Command(
    "Whether the machine is idle and on power, and what each source says. `--when-idle` and `--on-power` go by it.",
    machine,
    examples="""
  semantica machine
  semantica machine --json | jq .idle
  semantica rpc machine.activity '{"source": "myeditor"}'     somebody is typing""",
)
