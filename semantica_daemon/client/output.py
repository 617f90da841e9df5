"""A job's output by job.logs, through every run it gets: what follows it, and which stream each piece came from."""

from collections.abc import Iterator
from itertools import chain

from semantica_daemon.client.connection import ENDS, LONG_WAIT_MS, Client
from semantica_daemon.client.shapes import Json

CHUNK = 1_048_576
NEWS = ["job.started", *(f"job.{state.lower()}" for state in ENDS)]


def replies(
    client: Client, job_id: str, first_wait_ms: int = LONG_WAIT_MS, after: Json | None = None
) -> Iterator[Json]:
    """The answers of job.logs one after another until the job has ended and all is read, from the beginning or after
    an earlier one. The first comes after `first_wait_ms` at the latest. One with another `run_id` than the one before
    begins a further run."""
    reply = after or {"run_id": None, "next_offset": 0}
    wait_ms = first_wait_ms
    while True:
        # One run at a time: an offset means nothing in the log of another.
        run = {} if reply["run_id"] is None else {"run_id": reply["run_id"]}
        place = {"offset": reply["next_offset"], "limit": CHUNK, "timeout_ms": wait_ms}
        answer = client.ask("job.logs", job_id=job_id, **run, **place)
        if reply["run_id"] is None and (answer["run"] or 0) > 1:  # it was quicker than we are: from the first on
            reply = {"run_id": _runs(client, job_id)[0], "next_offset": 0}
            continue
        yield (reply := answer)
        wait_ms = LONG_WAIT_MS
        if reply["eof"] and (following := _next_run(client, job_id, reply)) is not None:
            reply = {"run_id": following, "next_offset": 0}
        elif reply["eof"] and reply["state"] in ENDS:
            return


def _runs(client: Client, job_id: str) -> list[str]:
    return [run["run_id"] for run in client.ask("job.get", job_id=job_id)["runs"]]


def _next_run(client: Client, job_id: str, reply: Json) -> str | None:
    """The one that follows, once it has begun; None when the job ends without another."""
    if reply["run_id"] is None or (reply["state"] in ENDS and _is_last(client, job_id, reply)):
        return None
    with client.subscribe(job_id=job_id, event_types=NEWS) as news:
        for _ in chain([None], news):
            job = client.ask("job.get", job_id=job_id)
            runs = [run["run_id"] for run in job["runs"]]
            later = runs[runs.index(reply["run_id"]) + 1 :] if reply["run_id"] in runs else []
            if later or job["state"] in ENDS:
                break
    return later[0] if later else None


def _is_last(client: Client, job_id: str, reply: Json) -> bool:
    """Most jobs have one run, and need no further question."""
    newest = client.ask("job.logs", job_id=job_id, limit=1) if reply["state"] != "DONE" or reply["run"] != 1 else reply
    return bool(newest["run_id"] == reply["run_id"])


def of_run(client: Client, job_id: str, run: Json, wait_ms: int) -> Iterator[Json]:
    """Of one run (`{}` is the newest, `{"run": 2}`): as far as there is something within the wait."""
    offset = 0
    while True:
        reply = client.ask("job.logs", job_id=job_id, offset=offset, limit=CHUNK, timeout_ms=wait_ms, **run)
        offset = reply["next_offset"]
        yield reply
        if reply["eof"] or not (reply["chunk"] or wait_ms):
            return
        run = {"run_id": reply["run_id"]} if reply["run_id"] else run  # the newest by then may be another


def pieces(reply: Json) -> Iterator[tuple[str, bytes]]:
    """(stream, bytes) in the order they were written."""
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
