"""Jobs that run commands: handed in, followed and looked at, through the socket and through /proc."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from semantica_daemon.processes import table
from tests.harness import Harness
from tests.supervisor.families import is_there, parent

WAIT = "sys.stdout.flush(); time.sleep(600)"


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def python(program: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", program]


def family(body: str) -> list[str]:
    """A program in which `child(...)` makes processes (`tests/supervisor/families`)."""
    return python(parent(body))


async def start(harness: Harness, argv: list[str], **spec: Any) -> str:
    """The id of a job that runs this command; `cwd`, `stdin` and `umask` go with it."""
    payload: dict[str, Any] = {"argv": argv, "cwd": "/"}
    payload |= {name: spec.pop(name) for name in ("cwd", "stdin", "umask") if name in spec}
    return str((await harness.enqueue("T", payload=payload, **spec))["job_id"])


async def run(harness: Harness, argv: list[str], **spec: Any) -> Any:
    """The job, once it has ended."""
    return await harness.ended(await start(harness, argv, **spec))


async def output(harness: Harness, job_id: str, **asked: Any) -> str:
    """All that it has written by now."""
    return str((await harness.call("job.logs", job_id=job_id, limit=1_048_576, **asked))["chunk"])


async def first_line(harness: Harness, job_id: str) -> str:
    """As soon as the process has written it; so it is there by then."""
    text = ""
    while "\n" not in text:
        chunk = await harness.call("job.logs", job_id=job_id, offset=len(text.encode()), timeout_ms=10_000)
        assert chunk["chunk"], f"no line: {chunk}"
        text += chunk["chunk"]
    return text.split("\n")[0]


async def first_line_as_json(harness: Harness, job_id: str) -> Any:
    """Its first line, as JSON."""
    return json.loads(await first_line(harness, job_id))


async def run_for_json(harness: Harness, argv: list[str], **spec: Any) -> Any:
    """What a command that ended well has written, as JSON."""
    job = await run(harness, argv, **spec)
    assert job["state"] == "DONE", (job["error"], await output(harness, job["job_id"]))
    return json.loads(await output(harness, job["job_id"]))


async def until(condition: Callable[[], bool], seconds: float = 40) -> None:
    """Bounded polling on a real condition."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - /proc has no events
            await asyncio.sleep(0.005)


def gone(*pids: int) -> bool:
    return not any(is_there(pid) for pid in pids)


def supervisors(harness: Harness) -> list[int]:
    """The supervisors of this daemon that are there."""
    wanted = f"SEMANTICA_SUPERVISOR={harness.paths.data / 'supervisor.lock'}".encode()
    return [pid for pid in table.own_processes() if is_there(pid) and wanted in _environ(pid)]


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
