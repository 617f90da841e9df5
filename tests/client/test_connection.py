"""The client class of scripts: calls, events between calls, logs, and a daemon that goes away."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon import paths
from semantica_daemon.client import CallRefused, Client, ConnectionLost, NoDaemon
from tests.client.fake_daemon import answer, peer
from tests.harness import PATIENCE_S, Process


@pytest.fixture
def client(daemon: Process) -> Iterator[Client]:
    with Client(paths.find({"SEMANTICA_HOME": str(daemon.home)}), autostart=False) as found:
        yield found


def test_a_call_gives_its_result(client: Client) -> None:
    assert client.call("admin.health")["status"] == "ready"


def test_a_refusal_carries_its_number_its_code_and_the_hint(client: Client) -> None:
    with pytest.raises(CallRefused, match="no job 0000") as refused:
        client.call("job.get", job_id="00000000")
    assert (refused.value.code, refused.value.data["code"]) == (4001, "E_JOB_NOT_FOUND")
    assert refused.value.data["hint"]
    assert client.call("admin.health")["status"] == "ready"


def test_a_command_is_run_and_its_end_is_returned(client: Client, tmp_path: Path) -> None:
    script = 'printenv PWD > here; test "$PATH $PYTEST_CURRENT_TEST" = "$1"; exit $(($? + 3))'
    ours = f"{os.environ['PATH']} {os.environ['PYTEST_CURRENT_TEST']}"
    job = client.run(["sh", "-c", script, "-", ours], cwd=str(tmp_path), user_tag="mine")
    assert job["user_tag"] == "mine"
    assert (job["state"], job["exit_code"]) == ("FAILED", 3)
    assert (tmp_path / "here").read_text() == f"{tmp_path}\n"


def test_a_job_is_handed_in_and_waited_for(client: Client) -> None:
    ack = client.enqueue("semantica.echo", {"a": [1, "ü", None]})
    assert client.wait(ack["job_id"])["result_summary"] == {"a": [1, "ü", None]}


def test_a_job_is_followed_from_its_first_event_to_its_end(client: Client) -> None:
    ack = client.enqueue("semantica.sleep", {"ms": 50})
    types = ["job.queued", "job.started", "job.done"]
    assert [event["event_type"] for event in client.follow(ack["job_id"])] == types
    assert [event["event_type"] for event in client.follow(ack["job_id"])] == types, "when it has ended, too"


def test_a_command_is_added_looked_at_and_cancelled(client: Client) -> None:
    ack = client.add(["sleep", "600"], cwd="/")
    assert client.get(ack["job_id"])["payload"]["argv"] == ["sleep", "600"]
    done = client.cancel(ack["job_id"], wait=PATIENCE_S)
    assert done["cancelled"] + done["cancelling"] == [ack["job_id"]]
    assert client.wait(ack["job_id"])["state"] == "CANCELLED"
    assert client.cancel(ack["job_id"])["unchanged"] == [ack["job_id"]]


def test_a_wait_ends_when_its_time_is_up(client: Client) -> None:
    ack = client.enqueue("semantica.sleep", {"ms": 60_000})
    with pytest.raises(TimeoutError, match="still"):
        client.wait(ack["job_id"], timeout=0.05)
    client.call("job.cancel", job_id=ack["job_id"], wait_ms=5000)
    assert client.wait(ack["job_id"], timeout=5)["state"] == "CANCELLED"


def test_logs_come_with_their_streams_run_after_run(client: Client) -> None:
    script = "echo out $SEMANTICA_ATTEMPT; echo err >&2; printf '\\377'; exit 1"
    spec: dict[str, Any] = {"payload": {"argv": ["sh", "-c", script], "cwd": "/"}, "execution_mode": "SUBPROCESS"}
    ack = client.enqueue("sh", **spec, max_attempts=2, backoff_base_ms=50)
    found = list(client.logs(ack["job_id"]))
    assert b"".join(data for stream, data in found if stream == "stdout") == b"out 1\n\xffout 2\n\xff"
    assert b"".join(data for stream, data in found if stream == "stderr") == b"err\nerr\n"


def test_a_log_of_megabytes_comes_whole(client: Client) -> None:
    line = "0123456789" * 12 + "\n"
    spec: dict[str, Any] = {"payload": {"argv": ["sh", "-c", f"yes '{line.strip()}' | head -n 40000"], "cwd": "/"}}
    ack = client.enqueue("yes", **spec, execution_mode="SUBPROCESS")
    assert b"".join(data for _, data in client.logs(ack["job_id"])) == line.encode() * 40_000


def test_events_and_calls_share_a_connection(client: Client) -> None:
    events = client.subscribe(user_tag="shared")
    ids = [client.enqueue("semantica.noop", user_tag="shared")["job_id"] for _ in range(20)]
    for job_id in ids:
        client.wait(job_id)
    seen = [next(events) for _ in range(60)]
    assert [event["sequence"] for event in seen] == sorted(event["sequence"] for event in seen)
    assert {(event["job_id"], event["event_type"]) for event in seen} == {
        (job_id, kind) for job_id in ids for kind in ("job.queued", "job.started", "job.done")
    }
    assert client.call("admin.health")["status"] == "ready"


def test_two_subscriptions_do_not_take_each_others_events(client: Client) -> None:
    first, second = client.subscribe(user_tag="one"), client.subscribe(user_tag="two")
    one = client.enqueue("semantica.noop", user_tag="one")["job_id"]
    two = client.enqueue("semantica.noop", user_tag="two")["job_id"]
    assert [next(second)["job_id"] for _ in range(3)] == [two] * 3
    assert [next(first)["job_id"] for _ in range(3)] == [one] * 3


def test_a_closed_subscription_is_ended_at_the_daemon_too(client: Client) -> None:
    for _ in range(150):  # 100 at once are the limit
        client.subscribe(user_tag="none").close()
    assert client.call("admin.health")["status"] == "ready"


def test_events_that_are_gone_are_named(client: Client) -> None:
    gap = next(client.subscribe(since=10**9))
    assert gap["event_type"] == "stream.gap"
    assert gap["payload"]["from"] == 10**9
    assert gap["sequence"] == gap["payload"]["to"]


def test_no_daemon_is_an_error_of_its_own(home: Path) -> None:
    with pytest.raises(NoDaemon) as missing:
        Client(paths.find({"SEMANTICA_HOME": str(home)}), autostart=False)
    assert missing.value.exit_code == 69


def test_a_daemon_that_dies_in_a_call_is_a_lost_connection(home: Path) -> None:
    with Process(home).start() as process, Client(paths.find({"SEMANTICA_HOME": str(home)}), False) as client:
        ack = client.enqueue("semantica.sleep", {"ms": 60_000})
        killer = threading.Timer(0.2, process.kill)
        killer.start()
        with pytest.raises(ConnectionLost):
            client.wait(ack["job_id"])
        with pytest.raises(ConnectionLost):
            client.call("admin.health")
        killer.join()


@pytest.mark.parametrize("reply", [b"HTTP/1.1 400 Bad Request\r\n", b"[]\n", b"{\n", b"\xff\n", b""])
def test_a_process_that_is_no_daemon_is_recognized(home: Path, reply: bytes) -> None:
    thread = peer(home, lambda stream: answer(stream, reply))
    with Client(paths.find({"SEMANTICA_HOME": str(home)}), False) as client, pytest.raises(ConnectionLost):
        client.call("admin.health")
    thread.join()


def test_an_answer_in_pieces_behind_others_and_notifications_is_found(home: Path) -> None:
    result = b'{"jsonrpc":"2.0","method":"event","params":{"subscription_id":"s","events":[{"sequence":1}]}}\n'
    other = b'{"jsonrpc":"2.0","id":99,"result":"of another call"}\n'
    found = b'{"jsonrpc":"2.0","id":1,"result":{"subscription_id":"s"}}\n'
    gap = b'{"jsonrpc":"2.0","method":"stream.gap","params":{"subscription_id":"s","from":1,"to":7,"epoch":"e"}}\n'
    thread = peer(home, lambda stream: answer(stream, result + other, found[:20], found[20:] + gap))
    with Client(paths.find({"SEMANTICA_HOME": str(home)}), False) as client:
        events = client.subscribe()
        assert next(events)["sequence"] == 1
        missed = next(events)
        assert (missed["event_type"], missed["message"]) == ("stream.gap", "events 2 to 7 are gone")
        with pytest.raises(ConnectionLost):
            next(events)
    thread.join()


def test_the_environment_chooses_the_daemon(daemon: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMANTICA_HOME", str(daemon.home))
    with Client(autostart=False) as client:
        assert daemon.process is not None
        assert client.call("admin.stats")["system"]["pid"] == daemon.process.pid
