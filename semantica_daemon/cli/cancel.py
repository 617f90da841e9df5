"""`semantica cancel`: ends jobs by id, tag, group, subject, queue or schedule, and returns when they are gone."""

from semantica_daemon import prose
from semantica_daemon.cli import changes, ids, selection
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.client.client import Client

FIRST_WAIT_MS = 1000


def run(arguments: Any, terminal: Terminal) -> None:
    with terminal.client() as client:
        params, phrase = selection.params(client, terminal, "cancel", arguments)
        result = _cancel(client, arguments, terminal, params)
    if terminal.as_json:
        return terminal.print_json(result)
    cancelled, cancelling = result["cancelled"], result["cancelling"]
    for job_id in [*cancelled, *cancelling]:
        terminal.print(job_id)
    if arguments.dry_run:
        return terminal.note(f"{prose.count(len(cancelled) + len(cancelling), 'job')} would be ended")
    if cancelled:
        name = prose.short_id(cancelled[0])
        one = f"job {name} was cancelled; `semantica retry {name}` runs it again"
        terminal.note(one if len(cancelled) == 1 else f"{len(cancelled)} jobs were cancelled")
    if cancelling:
        terminal.note(f"{prose.count(len(cancelling), 'job')} asked to end")
    for job_id in result["unchanged"]:
        terminal.note(f"job {prose.short_id(job_id)} had already ended")
    if not any(result.values()):
        terminal.note(f"no waiting or running job {phrase}")


def _cancel(client: Client, arguments: Any, terminal: Terminal, params: Json) -> Json:
    """The result of job.cancel, after the running jobs have ended, unless --no-wait is given."""
    if arguments.dry_run:
        return client.call("job.cancel", **params, dry_run=True)  # type: ignore[no-any-return]
    wait_ms = 0 if arguments.no_wait else FIRST_WAIT_MS
    result: Json = client.call("job.cancel", **params, reason=arguments.reason or "", wait_ms=wait_ms)
    if arguments.no_wait or not result["cancelling"]:
        return result
    count = prose.count(len(result["cancelling"]), "job")
    terminal.note(f"{count} asked to end; waiting until gone (Ctrl-C: do not wait)")
    for job_id in result["cancelling"]:
        client.wait_until(job_id, None)
    return {**result, "cancelled": result["cancelled"] + result["cancelling"], "cancelling": []}


OPTIONS = [
    Option("id ID", "ids, prefixes of ids, or @last", ids.check, nargs="*"),
    *selection.SELECTORS.values(),
    Option("--reason TEXT", "kept with the jobs' events"),
    Option("--no-wait", "do not wait until they are gone"),
    changes.DRY_RUN,
]
COMMAND = Command(
    "End jobs: waiting ones at once, running ones after their grace period at the latest. Prints the ids of those it "
    "ended.",
    run,
    OPTIONS,
    """
  semantica cancel @last
  semantica cancel --tag nightly --reason "not tonight"
  semantica cancel -Q build --no-wait
  semantica cancel -Q build --dry-run      print the ids, end nothing""",
)
