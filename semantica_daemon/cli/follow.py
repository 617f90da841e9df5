"""Follows a job: copies its output to our streams as it is written, and notes why it waits. For `run` and `logs`."""

import os
import select
from collections.abc import Callable

from semantica_daemon import prose
from semantica_daemon.cli import why
from semantica_daemon.cli.terminal import Terminal, cannot_write
from semantica_daemon.client import output
from semantica_daemon.client.client import ENDED_STATES, Client
from semantica_daemon.client.json_types import Json

EXPLAIN_AFTER_MS = 500
LOG_INCOMPLETE = "the log is incomplete: some output could not be kept (`semantica events --job ID` says why)"
DESCRIPTORS = {"stdout": 1, "stderr": 2}


def follow(
    client: Client,
    terminal: Terminal,
    job_id: str,
    show: Callable[[Json], None],
    after: Json | None = None,
    about_next_run: Callable[[], str] = lambda: "",
) -> Json:
    """Shows each reply of job.logs until the job has ended; returns the last one. `about_next_run`: the rest of the
    note that another run begins."""
    run_id, explained = after["run_id"] if after else None, False
    known_as_cut = {run_id} if after and after["truncated"] else set()
    for reply in output.replies(client, job_id, EXPLAIN_AFTER_MS, after):
        if reply["run_id"] is None and not (explained or reply["eof"]):
            explained = True
            _note_why(client, terminal, job_id)
        if run_id is not None and reply["run_id"] != run_id:
            terminal.note(f"run {reply['run_number']} of job {prose.short_id(job_id)} begins{about_next_run()}")
        run_id = reply["run_id"]
        show(reply)
        if output.is_about_missing_output(reply):
            known_as_cut.add(run_id)
        if reply["eof"] and reply["truncated"] and run_id not in known_as_cut:
            terminal.note(LOG_INCOMPLETE)
        if reply["eof"] and reply["state"] not in ENDED_STATES:
            _note_why(client, terminal, job_id)
    return reply


def _note_why(client: Client, terminal: Terminal, job_id: str) -> None:
    if not terminal.quiet and (reasons := why.waiting_for(client, job_id)) is not None:
        terminal.note(f"job {prose.short_id(job_id)} is waiting: {reasons}")


def copy_output(reply: Json) -> None:
    for stream, data in output.pieces(reply):
        write_all(DESCRIPTORS[stream], data)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes everything, also to a terminal that another program has made non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise cannot_write(error) from None
