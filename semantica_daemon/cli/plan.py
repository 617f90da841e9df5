"""`semantica plan`: what `semantica add` would do with the same arguments; nothing is stored."""

from semantica_daemon import prose
from semantica_daemon.cli import job_options, payload, tables
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.format import now
from semantica_daemon.cli.parser import Namespace
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.json_types import Json


def run(arguments: Namespace, terminal: Terminal) -> int:
    spec = job_options.job_spec(arguments)
    with terminal.client() as client:
        plan = client.call("job.plan", **payload.complete(client, spec))
    if terminal.as_json:
        terminal.print_json(plan)
        return 0
    if terminal.quiet:
        for job_id in [*plan["would_supersede"], *plan["would_interrupt"]]:
            terminal.print(job_id)
        return 0
    tables.pairs(_rows(plan))
    for warning in plan["warnings"]:
        terminal.note(warning)
    return 0


def _rows(plan: Json) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [("state", plan["state"])]
    if plan["existing"]:
        rows.insert(0, ("existing", f"{plan['existing']} would be returned; nothing new is added"))
    else:
        since = now()
        rows.append(("starts", prose.start(plan["reasons"], since, lambda at: prose.instant(at, since))))
    rows += [("supersedes", job_id) for job_id in plan["would_supersede"]]
    rows += [("interrupts", job_id) for job_id in plan["would_interrupt"]]
    return rows


COMMAND = Command(
    "Show what `semantica add` would do with the same arguments. Nothing is stored.",
    run,
    job_options.add_options_of_one_job,
    """
  semantica plan --newest-wins a.py --on-running cancel -- lint a.py""",
    job_options.USAGE_LINE.format("plan"),
)
