"""`semantica wait`: waits until jobs have ended and returns their exit code."""

import time

from semantica_daemon import prose
from semantica_daemon.cli import outcome, selection, times
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.client.exit_codes import TIMED_OUT


def run(arguments: Any, terminal: Terminal) -> int:
    """Returns the exit code of the first job, in the order given or of arrival, that did not succeed."""
    until = None if arguments.timeout is None else time.monotonic() + arguments.timeout / 1000
    codes = []
    with terminal.client() as client:
        chosen = selection.job_ids(client, terminal, "wait", arguments)
        for job_id in chosen:
            waited = client.wait_until(job_id, until)
            if terminal.as_json:
                terminal.print_json(waited, lines=len(chosen) > 1)
            codes.append(_report(waited, terminal))
    return next((code for code in codes if code), 0)


def _report(waited: Json, terminal: Terminal) -> int:
    job = waited["job"]
    if not waited["finished"]:
        terminal.note(f"job {prose.short_id(job['job_id'])} is still {job['state']}")
        return TIMED_OUT
    if job["state"] != "DONE":
        terminal.note(outcome.sentence(job, job["job_id"]))
    return outcome.exit_code(job)


TIMEOUT = Option("--timeout D", "stop waiting after this, with exit code 124", times.duration)
COMMAND = Command(
    "Wait until jobs have ended. Returns the job's own exit code; of several, that of the first that failed.",
    run,
    [selection.IDS, *selection.SELECTORS.values(), TIMEOUT],
    """
  semantica wait                       for the job you added last
  semantica wait 3f2a 81bc --timeout 10m
  semantica wait --tag nightly         for all that are live now; when none is, the newest that ended

With --json: the result of job.wait, {"finished": …, "job": …}, one line for each job.""",
)
