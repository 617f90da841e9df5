"""The output of a job, read by job.logs through all of its runs, with the stream that each piece was written to."""

from collections.abc import Iterator
from itertools import chain

from semantica_daemon.client.client import END_EVENTS, ENDED_STATES, LONG_WAIT_MS, Client
from semantica_daemon.client.json_types import Json

CHUNK = 1_048_576
MISSING = " bytes of output are missing here]\n"
STARTED_OR_ENDED = ["job.started", *END_EVENTS]


def replies(
    client: Client, job_id: str, first_wait_ms: int = LONG_WAIT_MS, after: Json | None = None
) -> Iterator[Json]:
    """The replies of job.logs until the job has ended and all output is read, from the beginning or after an earlier
    reply. The first comes after `first_wait_ms` at the latest. A reply with a new `run_id` begins another run."""
    reply = after or {"run_id": None, "next_offset": 0}
    wait_ms = first_wait_ms
    while True:
        # The run is named, because an offset means nothing in the log of another run.
        run = {} if reply["run_id"] is None else {"run_id": reply["run_id"]}
        position = {"offset": reply["next_offset"], "limit": CHUNK, "timeout_ms": wait_ms, "follow": True}
        answer = client.query("job.logs", job_id=job_id, **run, **position)
        if reply["run_id"] is None and (answer["run_number"] or 0) > 1:  # the job is already in a later run
            first = client.query("job.get", job_id=job_id)["runs"][0]
            reply = {"run_id": first["run_id"], "next_offset": 0}
            continue
        yield (reply := answer)
        wait_ms = LONG_WAIT_MS
        if reply["eof"] and (following := _next_run(client, job_id, reply)) is not None:
            reply = {"run_id": following, "next_offset": 0}
        elif reply["eof"] and reply["state"] in ENDED_STATES:
            return


def _next_run(client: Client, job_id: str, reply: Json) -> str | None:
    """The run after this one, once it has started; None when the job ends without another."""
    is_last = reply["state"] in ENDED_STATES and reply["run_number"] == reply["run_count"]
    if reply["run_id"] is None or is_last:  # makes no call for the usual job
        return None
    with client.subscribe(job_id=job_id, event_types=STARTED_OR_ENDED) as events:
        for _ in chain([None], events):
            job = client.query("job.get", job_id=job_id)
            runs = [run["run_id"] for run in job["runs"]]
            later = runs[runs.index(reply["run_id"]) + 1 :] if reply["run_id"] in runs else []
            if later or job["state"] in ENDED_STATES:
                break
    return later[0] if later else None


def of_run(client: Client, job_id: str, run: Json, wait_ms: int, follow: bool) -> Iterator[Json]:
    """The replies of job.logs for one run (`{}` is the newest, else `{"run_id": …}`), up to what is written within
    `wait_ms`."""
    offset, asked = 0, {"limit": CHUNK, "timeout_ms": wait_ms, "follow": follow}
    while True:
        reply = client.query("job.logs", job_id=job_id, offset=offset, **asked, **run)
        offset = reply["next_offset"]
        yield reply
        if reply["eof"] or not (reply["chunk"] or wait_ms):
            return
        run = {"run_id": reply["run_id"]} if reply["run_id"] else run  # another run may be the newest by then


def is_about_missing_output(reply: Json) -> bool:
    """Whether the reply is the line that stands for output which the log does not keep; it comes by itself."""
    return bool(reply["chunk"].startswith("\n[semantica: ") and reply["chunk"].endswith(MISSING) and reply["truncated"])


def pieces(reply: Json) -> Iterator[tuple[str, bytes]]:
    """Yields (stream, bytes) in the order they were written."""
    chunk = reply["chunk"]
    if reply["encoding"] == "base64":
        import base64  # noqa: PLC0415

        data = base64.b64decode(chunk)
    else:
        data = chunk.encode()
    start = 0
    for stream, length in reply["streams"]:
        yield stream, data[start : start + length]
        start += length
    if start < len(data):
        yield "stdout", data[start:]
