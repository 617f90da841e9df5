"""Tools we did not write: what anybody would try first from a shell. nc and socat half-close when their input ends."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import PATIENCE_S, Process
from tests.rpc.wire import frame, request

LONG = {"type": "AFTER", "delay_ms": 3_600_000}


@pytest.fixture
def process(home: Path) -> Iterator[Process]:
    with Process(home).start() as started:
        yield started


def nc(path: Path) -> list[str]:
    found = shutil.which("nc")
    if found is None:
        pytest.skip("NOT TESTED: nc is not installed (netcat-openbsd)")
    usage = subprocess.run([found, "-h"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if "OpenBSD netcat" not in usage.stdout + usage.stderr:
        pytest.skip("NOT TESTED: this nc may know no -U and -N (install netcat-openbsd)")
    return [found, "-N", "-U", str(path)]


def socat(path: Path) -> list[str]:
    found = shutil.which("socat")
    if found is None:
        pytest.skip("NOT TESTED: socat is not installed")
    return [found, "-t30", "-", f"UNIX-CONNECT:{path}"]


TOOLS = pytest.mark.parametrize("tool", [nc, socat], ids=["nc", "socat"])


def piped(command: list[str], data: bytes) -> list[Any]:
    done = subprocess.run(command, input=data, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@TOOLS
def test_one_call_by_a_pipe_is_answered_and_the_tool_leaves(process: Process, tool: Any) -> None:
    for end in (b"\n", b""):
        (reply,) = piped(tool(process.socket), request("admin.health", id="h") + end)
        assert (reply["id"], reply["result"]["status"]) == ("h", "ready")


@TOOLS
def test_a_job_is_handed_in_and_waited_for_after_the_input_has_ended(process: Process, tool: Any) -> None:
    spec = {"job_type": "semantica.sleep", "payload": {"ms": 300}}
    (ack,) = piped(tool(process.socket), request("job.enqueue", **spec))
    (waited,) = piped(tool(process.socket), request("job.wait", job_id=ack["result"]["job_id"]))
    assert waited["result"]["job"]["state"] == "DONE"


@TOOLS
def test_many_lines_are_all_answered(process: Process, tool: Any) -> None:
    calls = b"".join(request("job.plan", id=number, job_type="semantica.noop") + b"\n" for number in range(2000))
    replies = piped(tool(process.socket), calls)
    assert sorted(reply["id"] for reply in replies) == list(range(2000))


@TOOLS
def test_frames_work_by_a_pipe_too(process: Process, tool: Any) -> None:
    body = request("admin.health", id=0)
    done = subprocess.run(tool(process.socket), input=frame(body), capture_output=True, timeout=PATIENCE_S, check=True)
    head, _, answer = done.stdout.partition(b"\r\n\r\n")
    assert head == b"Content-Length: %d" % len(answer)
    assert json.loads(answer)["result"]["status"] == "ready"


@TOOLS
def test_the_stream_is_followed_by_a_tool_until_it_is_ended(process: Process, tool: Any) -> None:
    """Its input has ended; events come all the same. The tool is ended, and the daemon goes on."""
    with subprocess.Popen(tool(process.socket), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as follower:
        assert follower.stdin is not None
        assert follower.stdout is not None
        follower.stdin.write(request("event.subscribe") + b"\n")
        follower.stdin.close()
        assert "subscription_id" in json.loads(follower.stdout.readline())["result"]
        job = process.call("job.enqueue", job_type="semantica.noop", schedule=LONG)
        (event,) = json.loads(follower.stdout.readline())["params"]["events"]
        assert (event["job_id"], event["event_type"]) == (job["job_id"], "job.scheduled")
        follower.kill()
    assert process.call("admin.health")["status"] == "ready"


@TOOLS
def test_http_by_hand_is_told_how_to_call(process: Process, tool: Any) -> None:
    done = subprocess.run(
        tool(process.socket), input=b"GET / HTTP/1.0\r\n\r\n", capture_output=True, timeout=PATIENCE_S, check=True
    )
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert "semantica rpc" in json.loads(body)["error"]["data"]["hint"]


@pytest.mark.parametrize("options", [[], ["--data", request("admin.health").decode()], ["--request", "DELETE"]])
def test_curl_gets_a_400_that_names_the_command_line(process: Process, options: list[str]) -> None:
    found = shutil.which("curl")
    if found is None:
        pytest.skip("NOT TESTED: curl is not installed")
    command = [found, "--silent", "--show-error", "--unix-socket", str(process.socket), "http://localhost/jobs"]
    command += ["--write-out", " %{http_code} %{content_type}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    body, status, content_type = done.stdout.rsplit(maxsplit=2)
    assert (status, content_type) == ("400", "application/json")
    error = json.loads(body)["error"]
    assert error["code"] == -32700
    assert "semantica rpc" in error["data"]["hint"]
