"""`semantica add` and `semantica plan`: a job handed in, or only what would happen to it."""

import argparse
import re
from importlib import import_module

from semantica_daemon.client import draw, ids, spec, times, waiting, words, work
from semantica_daemon.client.codes import USAGE
from semantica_daemon.client.parser import Command, Namespace, Parser, of
from semantica_daemon.client.shapes import Any, Json
from semantica_daemon.client.terminal import Failed, Terminal

OF_EVERY = ("zone", "name", "misfire", "overlap")
LINE = "[options] [--] COMMAND [ARGUMENT …]\n       semantica {} [options] --type TYPE [--payload JSON]"


def add(arguments: Namespace, terminal: Terminal) -> int:
    if arguments.every is not None:
        every: Any = import_module("semantica_daemon.client.every")
        return int(every.add(arguments, terminal))
    _refuse_alone(arguments)
    asked, now = spec.job_spec(arguments), words.now()
    with terminal.client() as client:
        ack = client.call("job.enqueue", **work.completed(client, asked))
    ids.remember(terminal.where, ack["job_id"])
    if terminal.as_json:
        terminal.document(ack)
    else:
        terminal.data(ack["job_id"])
    tell(terminal, ack)
    waits = waiting.sentence(asked, now) if ack["state"] == "SCHEDULED" and not ack["existing"] else ""
    if waits:
        terminal.chat(f"job {ids.short(ack['job_id'])} {waits}")
    return 0


def _refuse_alone(arguments: Namespace) -> None:
    for name in OF_EVERY:
        if getattr(arguments, name) is not None:
            raise Failed(f"add: --{name} goes with --every", USAGE, "--every '0 3 * * *' makes a schedule")


def tell(terminal: Terminal, ack: Json) -> None:
    """What an ack says beyond the id."""
    name = ids.short(ack["job_id"])
    if ack["existing"]:
        terminal.chat(f"this is job {name}, which was handed in before; it is {ack['state']}")
    elif ack["state"] == "SUPERSEDED":
        terminal.chat(f"job {name} is not run: a newer generation is known already")
    if ack["superseded"]:
        older = words.many(len(ack["superseded"]), "older job")
        terminal.chat(f"job {name} supersedes {older}: {', '.join(map(ids.short, ack['superseded'][:5]))}")
    for warning in ack["warnings"]:
        terminal.chat(spec.in_words_of_the_line(warning))


def plan(arguments: Namespace, terminal: Terminal) -> int:
    asked = spec.job_spec(arguments)
    with terminal.client() as client:
        found = client.call("job.plan", **work.completed(client, asked))
    if terminal.as_json:
        terminal.document(found)
        return 0
    if terminal.quiet:
        for job_id in [*found["would_supersede"], *found["would_interrupt"]]:
            terminal.data(job_id)
        return 0
    draw.pairs(_forecast(found))
    for warning in found["warnings"]:
        terminal.chat(spec.in_words_of_the_line(warning))
    return 0


def _forecast(found: Json) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    if found["existing"]:
        rows.append(("existing", f"{found['existing']} would be returned; nothing new"))
    rows += [("state", found["state"]), ("starts", _in_my_zone(found["starts_when"]))]
    rows += [("supersedes", job_id) for job_id in found["would_supersede"]]
    rows += [("interrupts", job_id) for job_id in found["would_interrupt"]]
    return rows


def _in_my_zone(text: str) -> str:
    return re.sub(r"at (\d+) \(epoch ms\)", lambda found: times.when(int(found[1]), words.now()), text)


def options(parser: Parser) -> None:
    spec.options(parser)
    group = parser.add_argument_group("again and again", "a schedule instead of a job; prints the schedule's id")
    group.add_argument("--every", metavar="CRON", help="'0 3 * * *', with seconds '30 0 3 * * *', @daily, @hourly …")
    group.add_argument("--zone", metavar="ZONE", help="the time zone of CRON (default: yours)")
    group.add_argument("--name", metavar="NAME", help="of the schedule and its template (default: by the command)")
    policies(group)


def policies(group: "argparse._ArgumentGroup | Parser") -> None:
    """Of a schedule."""
    group.add_argument("--misfire", choices=("run_once", "skip", "run_all"),
                       help="what came due while nobody was there: one job (run_once), none, each of them")  # fmt: skip
    group.add_argument("--overlap", choices=("queue", "skip", "supersede"),
                       help="while its job before is not over: wait for it (queue), none, replace it")  # fmt: skip


def one_job(parser: Parser) -> None:
    """The options of who follows or foretells a single job."""
    spec.options(parser)
    parser.add_argument("--every", type=of(_refuse_every), help=argparse.SUPPRESS)


def _refuse_every(text: str) -> Any:
    raise ValueError("makes a schedule instead of a job: use `semantica add --every`")


ADD = Command(
    "Hand in a job and go on. Prints its id.",
    add,
    options,
    """
  semantica add -- make test
  semantica add --at 'tomorrow 02:00' -t nightly -- ./backup.sh
  semantica add --when-idle --on-power --stop-when-lost -- ./reindex
  semantica add --on-event git:commit=main -- make docs
  semantica add --newest-wins a.py --debounce 2s --max-wait 30s -- lint a.py
  semantica add --every '0 3 * * *' --name backup -- ./backup.sh
  semantica add --newest-wins a.py -- lint a.py      save ten times: one run, of the newest
  semantica add --type INDEX_FILE --payload '{"path": "a.py"}'
  id=$(semantica add -q -- make) && semantica wait $id""",
    LINE.format("add"),
)
PLAN = Command(
    "What `semantica add` would do with the same words. Nothing is stored.",
    plan,
    one_job,
    """
  semantica plan --newest-wins a.py --on-running cancel -- lint a.py""",
    LINE.format("plan"),
)
