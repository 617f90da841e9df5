"""`semantica cancel`: ends jobs by id, tag, group, subject or queue, and returns when they are gone."""

from semantica_daemon import prose
from semantica_daemon.cli import ids
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import Namespace, Parser, type_of
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.cli.wait import wait_for_end
from semantica_daemon.client.client import Client
from semantica_daemon.client.exit_codes import USAGE
from semantica_daemon.client.json_types import Json

FIRST_WAIT_MS = 1000
SELECTORS = {"tag": "user_tag", "group": "chain_group_id", "subject": "subject_key", "queue": "queue"}
PHRASES = {"tag": "has tag", "group": "is in group", "subject": "is about", "queue": "is in queue"}
MOST_IDS = 1000


def run(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        result = _cancel(client, arguments, terminal, _selection(client, arguments, terminal))
    if terminal.as_json:
        terminal.print_json(result)
        return 0
    for job_id in [*result["cancelled"], *result["cancelling"]]:
        terminal.print(job_id)
    _note_cancelled(terminal, result["cancelled"])
    if result["cancelling"]:
        terminal.note(f"{prose.count(len(result['cancelling']), 'job')} asked to end")
    for job_id in result["unchanged"]:
        terminal.note(f"job {prose.short_id(job_id)} had already ended")
    if not any(result.values()):
        terminal.note(f"no waiting or running job {_selected(arguments)}")
    return 0


def _note_cancelled(terminal: Terminal, cancelled: list[str]) -> None:
    if len(cancelled) == 1:
        terminal.note(f"job {prose.short_id(cancelled[0])} was cancelled")
    elif cancelled:
        terminal.note(f"{len(cancelled)} jobs were cancelled")


def _selected(arguments: Namespace) -> str:
    given = [f"{phrase} {value}" for name, phrase in PHRASES.items() if (value := getattr(arguments, name)) is not None]
    return given[0] if given else "was named"


def _selection(client: Client, arguments: Namespace, terminal: Terminal) -> Json:
    given = {field: value for name, field in SELECTORS.items() if (value := getattr(arguments, name)) is not None}
    if arguments.id:
        given["job_ids"] = [ids.resolve(client, terminal.paths, text) for text in arguments.id]
    if len(given) != 1:
        what = "no jobs are selected" if not given else f"{len(given)} selections at once"
        raise CommandFailed(f"cancel: {what}", USAGE, "give ids, or one of --tag, --group, --subject, --queue")
    if len(given.get("job_ids", ())) > MOST_IDS:
        raise CommandFailed(f"cancel: more than {MOST_IDS} ids at once", USAGE, "use a tag, or xargs -n 1000")
    return given


def _cancel(client: Client, arguments: Namespace, terminal: Terminal, selection: Json) -> Json:
    """The result of job.cancel, after the running jobs have ended, unless --no-wait is given."""
    wait_ms = 0 if arguments.no_wait else FIRST_WAIT_MS
    result: Json = client.call("job.cancel", **selection, reason=arguments.reason or "", wait_ms=wait_ms)
    if arguments.no_wait or not result["cancelling"]:
        return result
    terminal.note(
        f"{prose.count(len(result['cancelling']), 'job')} asked to end; waiting until gone (Ctrl-C: do not wait)"
    )
    for job_id in result["cancelling"]:
        wait_for_end(client, job_id, None)
    return {**result, "cancelled": result["cancelled"] + result["cancelling"], "cancelling": []}


def options(parser: Parser) -> None:
    parser.add_argument("id", nargs="*", type=type_of(ids.check), metavar="ID", help="ids, prefixes of ids, or @last")
    parser.add_argument("-t", "--tag", help="every live job with this tag")
    parser.add_argument("-g", "--group", help="every live job of this group")
    parser.add_argument("-s", "--subject", help="every live job about this subject")
    parser.add_argument("-Q", "--queue", help="every live job of this queue")
    parser.add_argument("--reason", metavar="TEXT", help="kept with the jobs' events")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until they are gone")


COMMAND = Command(
    "End jobs: waiting ones at once, running ones after their grace period at the latest. Prints the ids of those it "
    "ended.",
    run,
    options,
    """
  semantica cancel @last
  semantica cancel --tag nightly --reason "not tonight"
  semantica cancel -Q build --no-wait""",
)
