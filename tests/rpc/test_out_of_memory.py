"""A daemon with little address space (ulimit -v): what does not fit is refused, and the daemon goes on."""

import contextlib
import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Process
from tests.rpc.wire import request

MB = 1_000_000
PAYLOAD = {"text": "x" * (10 * MB - 100)}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: prlimit is of Linux")


@pytest.mark.parametrize("job_type", ["semantica.noop", "semantica.echo"])
def test_a_payload_of_10_mb_is_stored_or_refused_and_the_daemon_goes_on(home: Path, job_type: str) -> None:
    """With so much room above what the daemon has, memory runs out while it reads, stores, claims or replies."""
    codes: set[str | None] = set()
    with Process(home).start() as process:
        for limit in (*(address_space(process) + room * MB for room in (2, 25, 40, 80)), 400 * 1024 * 1024):
            with limited_to(process, limit):
                reply = call(process, "job.enqueue", job_type=job_type, payload=PAYLOAD)
                codes.add(code_of(reply))
                if "result" in reply:
                    codes.add(code_of(call(process, "job.wait", job_id=reply["result"]["job_id"])))
        job = process.call("job.enqueue", job_type="semantica.noop")
        assert process.call("job.wait", job_id=job["job_id"])["job"]["state"] == "DONE"
    assert {"E_OUT_OF_MEMORY"} <= codes <= {None, "E_OUT_OF_MEMORY"}


def address_space(process: Process) -> int:
    assert process.process is not None
    pages = Path(f"/proc/{process.process.pid}/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


@contextlib.contextmanager
def limited_to(process: Process, limit: int) -> Iterator[None]:
    assert process.process is not None
    pid, unlimited = process.process.pid, resource.RLIM_INFINITY
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, unlimited))
    yield
    resource.prlimit(pid, resource.RLIMIT_AS, (unlimited, unlimited))


def call(process: Process, method: str, /, **params: Any) -> Any:
    """The reply. A daemon that refuses in the middle of a message does not read the rest of it."""
    with process.connect() as connection, connection.makefile("rb") as stream:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request(method, **params) + b"\n")
        line = stream.readline()
    assert line, process.stderr()
    return json.loads(line)


def code_of(reply: Any) -> str | None:
    return str(reply["error"]["data"]["code"]) if "error" in reply else None
