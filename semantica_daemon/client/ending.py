"""`semantica wait` and `semantica cancel`: both come back when jobs have really ended."""

import time

from semantica_daemon.client import ids, outcome, words
from semantica_daemon.client.codes import TIMED_OUT, USAGE
from semantica_daemon.client.connection import LONG_WAIT_MS, Client
from semantica_daemon.client.parser import Command, Namespace, Parser, of
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Failed, Terminal

SOON_MS = 1000
SELECTORS = {"tag": "user_tag", "group": "chain_group_id", "subject": "subject_key", "queue": "queue"}
MOST_IDS = 1000


def wait(arguments: Namespace, terminal: Terminal) -> int:
    """The code of the first that did not end well, in the order they are named."""
    until = None if arguments.timeout is None else time.monotonic() + arguments.timeout / 1000
    codes = []
    with terminal.client() as client:
        for text in arguments.id:
            waited = _until(client, ids.resolve(client, terminal.where, text), until)
            if terminal.as_json:
                terminal.document(waited, lines=len(arguments.id) > 1)
            codes.append(_told(waited, terminal))
    return next((code for code in codes if code), 0)


def _until(client: Client, job_id: str, until: float | None) -> Json:
    while True:
        left = LONG_WAIT_MS if until is None else round((until - time.monotonic()) * 1000)
        waited: Json = client.ask("job.wait", job_id=job_id, timeout_ms=min(max(0, left), LONG_WAIT_MS))
        if waited["finished"] or (until is not None and time.monotonic() >= until):
            return waited


def _told(waited: Json, terminal: Terminal) -> int:
    job = waited["job"]
    if not waited["finished"]:
        terminal.chat(f"job {ids.short(job['job_id'])} is still {job['state']}")
        return TIMED_OUT
    if job["state"] != "DONE":
        terminal.chat(outcome.sentence(job, job["job_id"], job["superseded_by"]))
    return outcome.code(job)


def wait_options(parser: Parser) -> None:
    parser.add_argument("id", nargs="+", type=of(ids.check), metavar="ID", help="ids, beginnings of ids, or @last")
    parser.add_argument("--timeout", type=of(words.duration), metavar="D", help="give up after this, with 124")


def cancel(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        result = _cancelled(client, arguments, terminal, _selection(client, arguments, terminal))
    if terminal.as_json:
        terminal.document(result)
        return 0
    for job_id in [*result["cancelled"], *result["cancelling"]]:
        terminal.data(job_id)
    if result["cancelling"]:
        terminal.chat(f"{words.many(len(result['cancelling']), 'job')} asked to end")
    for job_id in result["unchanged"]:
        terminal.chat(f"job {ids.short(job_id)} had already ended")
    if not any(result.values()):
        terminal.chat("no live job is selected")
    return 0


def _selection(client: Client, arguments: Namespace, terminal: Terminal) -> Json:
    given = {field: value for name, field in SELECTORS.items() if (value := getattr(arguments, name)) is not None}
    if arguments.id:
        given["job_ids"] = [ids.resolve(client, terminal.where, text) for text in arguments.id]
    if len(given) != 1:
        what = "which jobs?" if not given else f"{len(given)} selections at once"
        raise Failed(f"cancel: {what}", USAGE, "give ids, or one of --tag, --group, --subject, --queue")
    if len(given.get("job_ids", ())) > MOST_IDS:
        raise Failed(f"cancel: more than {MOST_IDS} ids at once", USAGE, "use a tag, or xargs -n 1000")
    return given


def _cancelled(client: Client, arguments: Namespace, terminal: Terminal, selection: Json) -> Json:
    """Asked, then waited for until nothing of them is left, unless told not to."""
    soon = 0 if arguments.no_wait else SOON_MS
    result: Json = client.call("job.cancel", **selection, reason=arguments.reason or "", wait_ms=soon)
    if arguments.no_wait or not result["cancelling"]:
        return result
    terminal.chat(
        f"{words.many(len(result['cancelling']), 'job')} asked to end; waiting until gone (Ctrl-C: do not wait)"
    )
    for job_id in result["cancelling"]:
        _until(client, job_id, None)
    return {**result, "cancelled": result["cancelled"] + result["cancelling"], "cancelling": []}


def cancel_options(parser: Parser) -> None:
    parser.add_argument("id", nargs="*", type=of(ids.check), metavar="ID", help="ids, beginnings of ids, or @last")
    parser.add_argument("-t", "--tag", help="every live job with this tag")
    parser.add_argument("-g", "--group", help="every live job of this group")
    parser.add_argument("-s", "--subject", help="every live job about this subject")
    parser.add_argument("-Q", "--queue", help="every live job of this queue")
    parser.add_argument("--reason", metavar="TEXT", help="kept with the jobs' events")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until they are gone")


WAIT = Command(
    "Wait until jobs have ended. Returns the job's own exit code; of several, that of the first that failed.",
    wait,
    wait_options,
    """
  semantica wait @last
  semantica wait 3f2a 81bc --timeout 10m
  semantica list -q -t nightly | xargs semantica wait

With --json: the answer of job.wait, {"finished": …, "job": …}, one line for each job.""",
)
CANCEL = Command(
    "End jobs: what waits at once, what runs after its grace period at the latest. Prints the ids of those it ended.",
    cancel,
    cancel_options,
    """
  semantica cancel @last
  semantica cancel --tag nightly --reason "not tonight"
  semantica cancel -Q build --no-wait""",
)
