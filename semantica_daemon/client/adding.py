"""`semantica add` and `semantica plan`: a job handed in, or only what would happen to it."""

from semantica_daemon.client import draw, ids, spec, words
from semantica_daemon.client.parser import Command, Namespace
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Terminal

LINE = "[options] [--] COMMAND [ARGUMENT …]\n       semantica {} [options] --type TYPE [--payload JSON]"


def add(arguments: Namespace, terminal: Terminal) -> int:
    asked = spec.job_spec(arguments)
    with terminal.client() as client:
        ack = client.call("job.enqueue", **asked)
    ids.remember(terminal.where, ack["job_id"])
    if terminal.as_json:
        terminal.document(ack)
    else:
        terminal.data(ack["job_id"])
    tell(terminal, ack)
    return 0


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
        terminal.chat(str(warning))


def plan(arguments: Namespace, terminal: Terminal) -> int:
    asked = spec.job_spec(arguments)
    with terminal.client() as client:
        found = client.call("job.plan", **asked)
    if terminal.as_json:
        terminal.document(found)
        return 0
    if terminal.quiet:
        for job_id in [*found["would_supersede"], *found["would_interrupt"]]:
            terminal.data(job_id)
        return 0
    draw.pairs(_forecast(found))
    for warning in found["warnings"]:
        terminal.chat(str(warning))
    return 0


def _forecast(found: Json) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    if found["existing"]:
        rows.append(("existing", f"{found['existing']} would be returned; nothing new"))
    rows += [("state", found["state"]), ("starts", found["starts_when"])]
    rows += [("supersedes", job_id) for job_id in found["would_supersede"]]
    rows += [("interrupts", job_id) for job_id in found["would_interrupt"]]
    return rows


ADD = Command(
    "Hand in a job and go on. Prints its id.",
    add,
    spec.options,
    """
  semantica add -- make test
  semantica add --after 10m -t nightly -- ./backup.sh
  semantica add --newest-wins a.py -- lint a.py      save ten times: one run, of the newest
  semantica add --type INDEX_FILE --payload '{"path": "a.py"}'
  id=$(semantica add -q -- make) && semantica wait $id""",
    LINE.format("add"),
)
PLAN = Command(
    "What `semantica add` would do with the same words. Nothing is stored.",
    plan,
    spec.options,
    """
  semantica plan --newest-wins a.py --on-running cancel -- lint a.py""",
    LINE.format("plan"),
)
