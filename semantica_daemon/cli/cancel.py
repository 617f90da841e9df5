"""`semantica cancel`: ends jobs by id, tag, group, subject or queue, and returns when they are gone."""

from semantica_daemon import prose
from semantica_daemon.cli import ids
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.client import Client

FIRST_WAIT_MS = 1000
MOST_IDS = 1000
# Each with the phrase about the jobs it selects.
SELECTORS = {
    "has tag": Option("-t, --tag TAG", "every live job with this tag", field="user_tag"),
    "is in group": Option("-g, --group GROUP", "every live job of this group", field="chain_group_id"),
    "is about": Option("-s, --subject SUBJECT", "every live job about this subject", field="subject_key"),
    "is in queue": Option("-Q, --queue QUEUE", "every live job of this queue", field="queue"),
}


def run(arguments: Any, terminal: Terminal) -> None:
    with terminal.client() as client:
        selection, phrase = _selection(client, arguments, terminal)
        result = _cancel(client, arguments, terminal, selection)
    if terminal.as_json:
        return terminal.print_json(result)
    cancelled, cancelling = result["cancelled"], result["cancelling"]
    for job_id in [*cancelled, *cancelling]:
        terminal.print(job_id)
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


def _selection(client: Client, arguments: Any, terminal: Terminal) -> tuple[Json, str]:
    """The parameters of job.cancel that select the jobs, and a phrase about these jobs."""
    given = {one.field: value for one in SELECTORS.values() if (value := getattr(arguments, one.dest)) is not None}
    if arguments.id:
        given["job_ids"] = [ids.resolve(client, terminal.paths, text) for text in arguments.id]
    if len(given) != 1:
        what = "no jobs are selected" if not given else f"{len(given)} selections at once"
        raise CommandFailed(f"cancel: {what}", "give ids, or one of --tag, --group, --subject, --queue")
    if len(given.get("job_ids", ())) > MOST_IDS:
        raise CommandFailed(f"cancel: more than {MOST_IDS} ids at once", "use a tag, or xargs -n 1000")
    phrases = [f"{phrase} {given[one.field]}" for phrase, one in SELECTORS.items() if one.field in given]
    return given, phrases[0] if phrases else "was named"


def _cancel(client: Client, arguments: Any, terminal: Terminal, selection: Json) -> Json:
    """The result of job.cancel, after the running jobs have ended, unless --no-wait is given."""
    wait_ms = 0 if arguments.no_wait else FIRST_WAIT_MS
    result: Json = client.call("job.cancel", **selection, reason=arguments.reason or "", wait_ms=wait_ms)
    if arguments.no_wait or not result["cancelling"]:
        return result
    count = prose.count(len(result["cancelling"]), "job")
    terminal.note(f"{count} asked to end; waiting until gone (Ctrl-C: do not wait)")
    for job_id in result["cancelling"]:
        client.wait_until(job_id, None)
    return {**result, "cancelled": result["cancelled"] + result["cancelling"], "cancelling": []}


OPTIONS = [
    Option("id ID", "ids, prefixes of ids, or @last", ids.check, nargs="*"),
    *SELECTORS.values(),
    Option("--reason TEXT", "kept with the jobs' events"),
    Option("--no-wait", "do not wait until they are gone"),
]
COMMAND = Command(
    "End jobs: waiting ones at once, running ones after their grace period at the latest. Prints the ids of those it "
    "ended.",
    run,
    OPTIONS,
    """
  semantica cancel @last
  semantica cancel --tag nightly --reason "not tonight"
  semantica cancel -Q build --no-wait""",
)
