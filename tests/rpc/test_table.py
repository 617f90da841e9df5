"""Every row of the method table, called over the socket: what it answers when all is well, and in which shape.

A row without an example here fails; so does an example without a row.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from semantica_daemon.wire.methods import METHODS
from tests.harness import Harness
from tests.rpc import editing_examples, worker_examples
from tests.rpc.examples import ACK, EXAMPLES, LONG, UUID4, shows
from tests.rpc.wire import Wire, request, rows, stored

RUN = {"run_id", "attempt", "status", "started_at", "finished_at", "exit_code", "error", "worker_id", "log_path"}
EVENT = {"sequence", "job_sequence", "job_id", "timestamp_at", "event_type", "level", "message", "payload"}
VIEW = {
    "job_id", "superseded_by", "stale", "progress", "error", "exit_code", "run_count", "retry_of", "template_id",
    "schedule_id", "workspace_path",
}  # fmt: skip
BY_NAME = {method.name: method for method in METHODS}
SHAPED = re.compile(r"(progress|error)_\w+")
OWN = {
    "number", "ended", "stop_state", "event_count", "last_event", "unmet", "is_delay", "postponed_since", "claim_class",
    "blocked_by", "spec", "environment_id",
}  # fmt: skip


def test_every_method_of_the_table_has_an_example_and_every_example_a_method() -> None:
    assert set(EXAMPLES) == {method.name for method in METHODS}
    assert len(BY_NAME) == len(METHODS)
    assert worker_examples.claim is EXAMPLES["worker.claim"]
    assert editing_examples.move is EXAMPLES["job.move"]


@pytest.mark.parametrize("name", [method.name for method in METHODS])
async def test_a_method_answers_as_the_protocol_says(real: Harness, name: str) -> None:
    """The example checks values; here the answer is held against the type that rpc.discover promises."""
    answer = await EXAMPLES[name](real)
    shaped = msgspec.json.decode(msgspec.json.encode(answer), type=BY_NAME[name].result)
    assert msgspec.json.decode(msgspec.json.encode(shaped)) == answer


@shows("job.enqueue")
async def enqueue(real: Harness) -> Any:
    ack = await real.call("job.enqueue", job_type="semantica.noop", queue="q1", subject_key="s")
    assert set(ack) >= ACK
    assert UUID4.fullmatch(ack["job_id"])
    job_id = ack["job_id"]
    assert ack | {"queue": "q1", "state": "QUEUED", "generation": 1, "superseded": [], "existing": False} == ack
    assert (await real.ended(job_id))["state"] == "DONE"
    return ack


@shows("job.enqueue_many")
async def enqueue_many(real: Harness) -> Any:
    specs = [{"job_type": "semantica.noop", "user_tag": f"t{number}"} for number in range(3)]
    acks = await real.call("job.enqueue_many", jobs=specs)
    assert [set(ack) >= ACK for ack in acks["jobs"]] == [True] * 3
    tags = [(await real.job(ack["job_id"]))["user_tag"] for ack in acks["jobs"]]
    assert tags == ["t0", "t1", "t2"]
    return acks


@shows("job.plan")
async def plan(real: Harness) -> Any:
    old = await real.enqueue(subject_key="s", schedule=LONG)
    await real.settle()
    before = stored(real.paths.data)
    forecast = await real.call("job.plan", job_type="semantica.noop", subject_key="s")
    assert forecast["would_supersede"] == [old["job_id"]]
    assert (forecast["would_interrupt"], forecast["existing"], forecast["state"]) == ([], None, "QUEUED")
    assert forecast["starts_when"]
    assert stored(real.paths.data) == before
    return forecast


@shows("job.get")
async def get(real: Harness) -> Any:
    ack = await real.enqueue("semantica.echo", payload={"a": [1, "ä"]}, user_tag="t", priority=7, trace_id="tr")
    await real.ended(ack["job_id"])
    job = await real.call("job.get", job_id=ack["job_id"])
    assert set(job) >= VIEW | {"runs"} | columns_of_jobs(real.paths.data)
    assert (job["job_id"], job["id"], job["state"]) == (ack["job_id"], ack["job_id"], "DONE")
    assert (job["payload"], job["result_summary"]) == ({"a": [1, "ä"]}, {"a": [1, "ä"]})
    assert (job["user_tag"], job["priority"], job["trace_id"]) == ("t", 7, "tr")
    assert (job["subject_key"], job["generation"], job["execution_mode"]) == (None, None, "IN_PROCESS")
    assert job["created_at"] <= job["started_at"] <= job["finished_at"]
    (run,) = job["runs"]
    assert set(run) >= RUN | {"params_snapshot"}
    assert (run["attempt"], run["status"], run["error"]) == (1, "DONE", None)
    return job


def columns_of_jobs(home: Path) -> set[str]:
    """Every column but those that are shown in a shape of their own or are only the daemon's."""
    names = {row[1] for row in rows(home, "PRAGMA table_info(jobs)")}
    return {name for name in names if not SHAPED.fullmatch(name)} - OWN


@shows("job.list")
async def list_jobs(real: Harness) -> Any:
    ids = [(await real.enqueue(schedule=LONG))["job_id"] for _ in range(3)]
    page = await real.call("job.list", limit=2)
    assert [job["job_id"] for job in page["items"]] == ids[:0:-1]
    assert set(page["items"][0]) >= VIEW | columns_of_jobs(real.paths.data)
    rest = await real.call("job.list", limit=2, cursor=page["next_cursor"])
    assert ([job["job_id"] for job in rest["items"]], rest["next_cursor"]) == (ids[:1], None)
    return rest


@shows("job.wait")
async def wait(real: Harness) -> Any:
    ack = await real.enqueue("semantica.sleep", payload={"ms": 20})
    waited = await real.call("job.wait", job_id=ack["job_id"])
    assert (waited["finished"], waited["job"]["state"]) == (True, "DONE")
    assert set(waited["job"]) >= VIEW
    return waited


@shows("job.cancel")
async def cancel(real: Harness) -> Any:
    ack = await real.enqueue(schedule=LONG)
    done = await real.call("job.cancel", job_id=ack["job_id"], reason="not needed")
    assert done == {"cancelled": [ack["job_id"]], "cancelling": [], "unchanged": []}
    return done


@shows("job.logs")
async def logs(real: Harness) -> Any:
    ack = await real.enqueue("T", payload={"argv": ["echo", "hello"]})
    await real.ended(ack["job_id"])
    chunk = await real.call("job.logs", job_id=ack["job_id"])
    said = {"chunk": "hello\n", "encoding": "utf-8", "next_offset": 6, "eof": True, "streams": [["stdout", 6]]}
    about = {"run": 1, "truncated": False, "state": "DONE", "exit_code": 0, "error": None}
    assert chunk | said | about == chunk
    assert chunk["run_id"] == (await real.job(ack["job_id"]))["run_id"]
    return chunk


async def under_way(real: Harness) -> tuple[str, str]:
    """A job whose process is there and waits, and its token as the process itself tells it."""
    argv = ["sh", "-c", "echo $SEMANTICA_RUN_TOKEN; exec sleep 60"]
    ack = await real.enqueue("T", payload={"argv": argv})
    chunk = await real.call("job.logs", job_id=ack["job_id"], timeout_ms=10_000)
    return ack["job_id"], chunk["chunk"].strip()


@shows("run.progress")
async def run_progress(real: Harness) -> Any:
    job_id, token = await under_way(real)
    answer = await real.call("run.progress", run_token=token, percent=50, phase="half", items_completed=1)
    assert answer == {"job_id": job_id, "attempt": 1}
    progress = (await real.job(job_id))["progress"]
    assert progress | {"percent": 50, "phase": "half", "items_completed": 1, "items_total": None} == progress
    return answer


@shows("run.log")
async def run_log(real: Harness) -> Any:
    job_id, token = await under_way(real)
    answer = await real.call("run.log", run_token=token, message="look", level="warn", payload={"a": [1]})
    assert answer == {"job_id": job_id, "attempt": 1}
    event = (await real.call("event.list", job_id=job_id))["events"][-1]
    said = {"event_type": "job.log", "message": "look", "level": "warn", "payload": {"a": [1]}}
    assert event | said == event
    return answer


@shows("run.result")
async def run_result(real: Harness) -> Any:
    job_id, token = await under_way(real)
    answer = await real.call("run.result", run_token=token, result={"found": ["ä"]})
    assert answer == {"job_id": job_id, "attempt": 1}
    assert (await real.job(job_id))["result_summary"] == {"found": ["ä"]}
    return answer


@shows("event.subscribe")
async def subscribe(real: Harness) -> Any:
    client = await real.client()
    told = await client.call("event.subscribe")
    ack = await client.call("job.enqueue", job_type="semantica.noop")
    events = await client.events(3)
    assert [event["event_type"] for event in events] == ["job.queued", "job.started", "job.done"]
    assert [set(event) == EVENT for event in events] == [True] * 3
    assert [event["sequence"] for event in events] == [told["sequence"] + n for n in (1, 2, 3)]
    assert [event["job_sequence"] for event in events] == [1, 2, 3]
    assert {event["job_id"] for event in events} == {ack["job_id"]}
    return told


@shows("event.unsubscribe")
async def unsubscribe(real: Harness) -> Any:
    client = await real.client()
    told = await client.call("event.subscribe")
    answer = await client.call("event.unsubscribe", subscription_id=told["subscription_id"])
    assert answer == {"unsubscribed": True}
    await real.ended((await client.call("job.enqueue", job_type="semantica.noop"))["job_id"])
    await real.settle()
    assert client.notifications.empty()
    again = await client.call("event.unsubscribe", subscription_id=told["subscription_id"])
    assert again == {"unsubscribed": False}
    return again


@shows("event.list")
async def list_events(real: Harness) -> Any:
    ack = await real.enqueue()
    await real.ended(ack["job_id"])
    page = await real.call("event.list", job_id=ack["job_id"])
    assert [event["event_type"] for event in page["events"]] == ["job.queued", "job.started", "job.done"]
    assert page["next_sequence"] == page["events"][-1]["sequence"]
    assert page["epoch"] == (await real.call("event.subscribe"))["epoch"]
    return page


@shows("queue.list")
async def list_queues(real: Harness) -> Any:
    await real.enqueue(queue="later", schedule=LONG)
    found = await real.call("queue.list")
    by_name = {queue["queue"]: queue for queue in found["queues"]}
    assert set(by_name) == {"default", "later"}
    fields = {"queued": 0, "scheduled": 1, "running": 0, "slots": 2, "paused": False}
    assert by_name["later"] | fields == by_name["later"]
    return found


@shows("queue.configure")
async def configure(real: Harness) -> Any:
    rate = {"count": 10, "per_ms": 60_000}
    limits = {"rate": rate, "keys": {"repo:*": 2, "api:*": {"rate": rate}}}
    answer = await real.call("queue.configure", queue="q", slots=1, max_queued=5, on_running="cancel", **limits)
    shown = {"rate": rate, "keys": {"repo:*": {"limit": 2, "rate": None}, "api:*": {"limit": 1, "rate": rate}}}
    assert answer == {"queue": "q", "slots": 1, "max_queued": 5, "on_running": "cancel", **shown, "warnings": []}
    (queue,) = [one for one in (await real.call("queue.list"))["queues"] if one["queue"] == "q"]
    assert (queue["slots"], queue["max_queued"], queue["on_running"]) == (1, 5, "cancel")
    assert (queue["rate"], queue["keys"]) == (shown["rate"], shown["keys"])
    return answer


@shows("queue.pause")
async def pause(real: Harness) -> Any:
    answer = await real.call("queue.pause", queue="q")
    assert answer == {"queue": "q", "paused": True, "resume_at": None}
    ack = await real.enqueue(queue="q")
    await real.ended((await real.enqueue())["job_id"])
    assert await real.state(ack["job_id"]) == "QUEUED"
    return answer


@shows("queue.resume")
async def resume(real: Harness) -> Any:
    await real.call("queue.pause")
    ack = await real.enqueue()
    await real.settle()
    assert await real.state(ack["job_id"]) == "QUEUED"
    answer = await real.call("queue.resume")
    assert answer | {"queue": None, "paused": False} == answer
    assert (await real.ended(ack["job_id"]))["state"] == "DONE"
    return answer


@shows("queue.delete")
async def delete_queue(real: Harness) -> Any:
    await real.call("queue.configure", queue="q", slots=1)
    answer = await real.call("queue.delete", queue="q")
    assert answer == {"queue": "q", "remains": False}
    return answer


@shows("admin.health")
async def health(real: Harness) -> Any:
    answer = await real.call("admin.health")
    assert (answer["status"], answer["protocol"]) == ("ready", 1)
    assert answer["uptime_ms"] >= 0
    assert {"writer", "dispatcher", "scheduler", "feed", "server"} <= set(answer["parts"])
    assert answer["parts"]["server"]["connections"] == 1
    return answer


@shows("admin.stats")
async def stats(real: Harness) -> Any:
    for payload in ({"ms": 0}, {"ms": 1}):
        await real.ended((await real.enqueue("semantica.sleep", payload=payload))["job_id"])
    answer = await real.call("admin.stats")
    (queue,) = answer["queues"]
    fields = {"queue": "default", "queued": 0, "running": 0, "done": 2, "failed": 0, "superseded": 0}
    assert queue | fields == queue
    assert queue["avg_wait_ms"] >= 0
    assert queue["avg_run_ms"] >= 0
    assert {"db_bytes", "wal_bytes", "is_idle"} <= set(answer["system"])
    assert answer["system"]["db_bytes"] > 0
    return answer


@shows("admin.config")
async def config(real: Harness) -> Any:
    answer = await real.call("admin.config")
    assert answer["daemon"]["max_slots"] == 2
    assert answer["paths"]["socket"] == str(real.paths.socket)
    return answer


@shows("admin.shutdown")
async def shutdown_the_daemon(real: Harness) -> Any:
    """Here only the answer; that the process leaves is shown below."""
    answer = await real.call("admin.shutdown", reason="because")
    assert answer == {"stopping": True}
    return answer


@shows("rpc.discover")
async def discover(real: Harness) -> Any:
    answer = await real.call("rpc.discover")
    assert [method["name"] for method in answer["methods"]] == [method.name for method in METHODS]
    return answer


@shows("initialize")
async def initialize(real: Harness) -> Any:
    answer = await real.call("initialize", processId=1, capabilities={"a": 1})
    assert answer["limits"]["batch"] == 1000
    assert answer["epoch"] == (await real.call("event.list"))["epoch"]
    return answer


@shows("initialized")
async def initialized(real: Harness) -> Any:
    return await real.call("initialized")


@shows("shutdown")
async def shutdown(real: Harness) -> Any:
    answer = await real.call("shutdown")
    assert (await real.call("admin.health"))["status"] == "ready"
    return answer


@shows("exit")
async def leave(real: Harness) -> Any:
    wire = await Wire.open(real.paths.socket)
    wire.put(b'{"jsonrpc":"2.0","method":"exit"}')
    await wire.ended()
    assert (await real.call("admin.health"))["status"] == "ready"


@shows("$/cancelRequest")
async def cancel_request(real: Harness) -> Any:
    ack = await real.enqueue(schedule=LONG)
    wire = await Wire.open(real.paths.socket)
    wire.put(request("job.wait", id="w", job_id=ack["job_id"], timeout_ms=60_000))
    wire.put(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"w"}}')
    reply = await wire.message()
    assert (reply["id"], reply["error"]["code"]) == ("w", -32800)
