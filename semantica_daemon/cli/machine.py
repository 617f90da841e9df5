"""`semantica machine`: whether the machine is idle and on mains power, and which source reports it."""

from semantica_daemon import prose
from semantica_daemon.cli import tables
from semantica_daemon.cli.command import Any, Command, Json, Terminal
from semantica_daemon.cli.format import optional

COLUMNS: tables.Columns = {
    "kind": "kind",
    "source": "source",
    "answer": lambda source: {True: "yes", False: "no", None: None}[source["answer"]],
    "idle for": lambda source: optional(prose.duration, source["idle_for_ms"]),
    "detail": lambda source: source["detail"] or None,
}


def run(arguments: Any, terminal: Terminal) -> None:
    found = terminal.call("machine.get")
    if terminal.as_json:
        return terminal.print_json(found)
    tables.pairs([("idle", idle(found)), ("power", power(found)), ("watching", _watching(found))])
    if found["sources"] and not terminal.quiet:
        tables.heading("sources, the first answer counts")
        tables.table(COLUMNS, found["sources"], "detail")


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
    watched = " and ".join(found["watching"])
    pronoun = "it" if len(found["watching"]) == 1 else "them"
    return f"{watched}, because jobs wait for {pronoun}" if watched else "nothing at the moment"


COMMAND = Command(
    "Show whether the machine is idle and on mains power, and what each source reports. `--when-idle` and `--on-power` "
    "depend on it.",
    run,
    examples="""
  semantica machine
  semantica machine --json | jq .idle
  semantica rpc machine.activity '{"source": "myeditor"}'     reports that the user is typing""",
)
