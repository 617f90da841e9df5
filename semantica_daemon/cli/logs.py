"""`semantica logs`: the output of a job, on the streams it was written to; for a handler, its log events."""

from collections.abc import Iterable

from semantica_daemon import prose
from semantica_daemon.cli import events, format, outcome, selection
from semantica_daemon.cli.command import Any, Command, Group, Json, Option, Options, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.follow import DESCRIPTORS, LOG_INCOMPLETE, follow, write_all
from semantica_daemon.cli.parser import whole_number
from semantica_daemon.client import output
from semantica_daemon.client.client import END_EVENTS, ENDED_STATES, LIVE_STATES, LONG_WAIT_MS, Client
from semantica_daemon.client.results import Event

Pieces = list[tuple[str, bytes]]


def last_lines(pieces: Pieces, most: int) -> Pieces:
    """The pieces cut to the last `most` lines of both streams together."""
    kept: Pieces = []
    for stream, data in reversed(pieces if most else []):
        end = len(data) - (not kept and data.endswith(b"\n"))
        while most and (end := data.rfind(b"\n", 0, end)) >= 0:
            most -= 1
        kept.insert(0, (stream, data if most else data[end + 1 :]))
        if not most:
            break
    return kept


def run(arguments: Any, terminal: Terminal) -> None:
    if arguments.lines is not None and arguments.lines < 0:
        raise CommandFailed("logs: -n needs a number of lines")
    with terminal.client() as client:
        chosen = selection.job_ids(client, terminal, "logs", arguments)
        for job_id in chosen:
            job = client.query("job.get", job_id=job_id)
            if len(chosen) > 1:
                terminal.note(f"job {prose.short_id(job['job_id'])}: {format.command(job) or job['job_type']}")
            _print_log(client, terminal, job, arguments)


def _print_log(client: Client, terminal: Terminal, job: Json, arguments: Any) -> None:
    if job["execution_mode"] == "IN_PROCESS":
        return _print_log_events(client, terminal, job, arguments)
    last = _print_run(client, terminal, job, arguments)
    if arguments.follow and arguments.run is None:
        _follow(client, terminal, job["job_id"], arguments, last)


def _print_run(client: Client, terminal: Terminal, job: Json, arguments: Any) -> Json:
    """Prints the output of the newest run so far, or of the given one, with --follow to its end; returns the last
    reply."""
    job_id = job["job_id"]
    chosen = {} if arguments.run is None else _run(job, arguments.run)
    wait_ms = LONG_WAIT_MS if chosen and arguments.follow else 0
    kept: Pieces = []
    shows_notice, has_notice = arguments.lines is None and arguments.only != "stdout", False
    for reply in output.of_run(client, job_id, chosen, wait_ms, arguments.follow):
        has_notice |= shows_notice and output.is_about_missing_output(reply)
        if arguments.lines is None or wait_ms:
            _print_pieces(terminal, arguments, reply, output.pieces(reply))
        else:
            kept = last_lines([*kept, *output.pieces(reply)], arguments.lines)
    _print_pieces(terminal, arguments, reply, kept)
    if reply["truncated"] and not has_notice:
        terminal.note(LOG_INCOMPLETE)
    if reply["run_id"] is None and not arguments.follow:
        terminal.note(f"job {prose.short_id(job_id)} has not run: it is {reply['state']}")
    elif reply["eof"] and not (reply["next_offset"] or reply["state"] in (*LIVE_STATES, "DONE") or arguments.follow):
        name = f"job {prose.short_id(job_id)}"
        terminal.note(f"{name} wrote nothing; it {outcome.sentence(job, job_id).removeprefix(f'{name} ')}")
    return reply


def _run(job: Json, number: int) -> Json:
    """The parameter of job.logs for this run. Of many runs job.get lists only the newest: then the attempt is used."""
    found = [run["run_id"] for run in job["runs"] if run["number"] == number]
    return {"run_id": found[0]} if found else {"run": number}


def _print_pieces(terminal: Terminal, arguments: Any, reply: Json, pieces: Iterable[tuple[str, bytes]]) -> None:
    for stream, data in pieces:
        if arguments.only in (None, stream):
            if terminal.as_json:
                text = data.decode("utf-8", "replace")
                line = {"run_id": reply["run_id"], "run": reply["run_number"], "stream": stream, "text": text}
                terminal.print_json(line, lines=True)
            else:
                write_all(DESCRIPTORS[stream], data)


def _follow(client: Client, terminal: Terminal, job_id: str, arguments: Any, last: Json) -> None:
    if not (last["eof"] and last["state"] in ENDED_STATES):

        def show(reply: Json) -> None:
            _print_pieces(terminal, arguments, reply, output.pieces(reply))

        last = follow(client, terminal, job_id, show, last)
    if last["state"] != "DONE":
        terminal.note(outcome.sentence(last, job_id))


def _print_log_events(client: Client, terminal: Terminal, job: Json, arguments: Any) -> None:
    """A handler has no log file: ctx.log emits events."""
    found = events.stored(client, {"job_id": job["job_id"], "event_types": ["job.log"]}, 0)
    if arguments.lines is not None:
        found = found[max(0, len(found) - arguments.lines) :]
    for event in found:
        _print_event(terminal, event)
    if arguments.follow and job["state"] not in ENDED_STATES:
        since = max((event["sequence"] for event in found), default=0)
        wanted = ["job.log", *END_EVENTS]
        for event in client.subscribe(job_id=job["job_id"], since=since, event_types=wanted):
            if event["event_type"] != "job.log":
                break
            _print_event(terminal, event)


def _print_event(terminal: Terminal, event: Event) -> None:
    if terminal.as_json:
        terminal.print_json(event, lines=True)
    else:
        terminal.print(events.text(event))
        terminal.flush()


OPTIONS: Options = [
    selection.IDS,
    *selection.SELECTORS.values(),
    Option("-f, --follow", "follow it until the job has ended"),
    Option("-n, --lines N", "only the last N lines of the present output", whole_number),
    Option("--run N", "the Nth run, as `semantica show` numbers them (default: the newest)", whole_number),
    Group("", [
        Option("--stdout", "only stdout", dest="only", action="store_const", const="stdout"),
        Option("--stderr", "only stderr", dest="only", action="store_const", const="stderr"),
    ]),
]  # fmt: skip
COMMAND = Command(
    "Print the output of jobs: their stdout on stdout, their stderr on stderr.",
    run,
    OPTIONS,
    """
  semantica logs                       of the job you added last
  semantica logs -f 3f2a
  semantica logs --tag nightly         of the live jobs, one after another; when none is live, of the newest
  semantica logs -n 20 --stderr 3f2a 2>&1 | less
  semantica logs --run 1 3f2a          the first of several runs

With --json: one line for each piece, {"run_id": "…", "run": 1, "stream": "stdout", "text": "…"}.""",
)
