"""job.execute over the socket: at once, ahead of everything, and what comes back when it has not ended."""

import itertools
from typing import Any

import pytest

from tests.harness import Harness, RpcError
from tests.stopwatch import Stopwatch

LONG: dict[str, Any] = {"job_type": "semantica.sleep", "payload": {"ms": 60_000}}


def command(*argv: str) -> dict[str, Any]:
    return {"job_type": "command", "execution_mode": "SUBPROCESS", "payload": {"argv": list(argv), "cwd": "/"}}


async def refused(harness: Harness, /, **params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await harness.call("job.execute", **params)
    return caught.value


async def active(harness: Harness) -> Any:
    return (await harness.call("reservation.get"))["reservation"]


async def fill_slots(harness: Harness) -> list[str]:
    """Two slots, and one job that waits."""
    ids = [(await harness.enqueue(**LONG))["job_id"] for _ in range(3)]
    await harness.settle()
    return ids


async def test_it_runs_ahead_of_what_waits_though_no_slot_is_free(real: Harness) -> None:
    ids = await fill_slots(real)
    done = await real.call("job.execute", **command("sh", "-c", "exit 0"))
    assert (done["job"]["state"], done["job"]["exit_code"], done["existing"]) == ("DONE", 0, False)
    assert await active(real) is None
    assert [await real.state(job_id) for job_id in ids] == ["RUNNING", "RUNNING", "QUEUED"]
    await real.call("job.cancel", job_ids=ids, wait_ms=8000)


async def test_what_has_not_ended_in_time_comes_back_as_it_stands_and_keeps_the_reservation(real: Harness) -> None:
    watch = Stopwatch()
    found = (await real.call("job.execute", **LONG, wait_ms=100))["job"]
    assert (found["state"], found["runs"][0]["status"]) == ("RUNNING", "RUNNING")
    assert watch.seconds() < 5
    assert (await active(real))["job_id"] == found["job_id"]
    waiting = (await real.enqueue())["job_id"]
    await real.settle()
    assert await real.state(waiting) == "QUEUED"
    await real.call("job.cancel", job_id=found["job_id"], wait_ms=8000)
    assert (await real.ended(waiting))["state"] == "DONE"
    assert await active(real) is None


async def test_to_wait_for_the_start_only_is_answered_at_once(real: Harness) -> None:
    found = (await real.call("job.execute", **LONG, wait_for="start", wait_ms=60_000))["job"]
    assert found["state"] == "RUNNING"
    await real.call("job.cancel", job_id=found["job_id"], wait_ms=8000)


async def test_while_reserved_it_waits_or_is_refused_and_nothing_is_stored(real: Harness) -> None:
    made = await real.call("reservation.acquire", reserved_by="deploy")
    for wait_ms in (0, 50):
        error = await refused(real, job_type="semantica.noop", wait_ms=wait_ms)
        assert (error.code, error.data["code"], error.data["reserved_by"]) == (4002, "E_RESERVED", "deploy")
    assert (await real.call("job.list"))["items"] == []
    client = await real.client()
    waiting = client.send("job.execute", job_type="semantica.noop", wait_ms=60_000)
    await client.call("initialized")
    await real.call("reservation.release", reservation_id=made["reservation_id"])
    assert (await client.result(waiting))["job"]["state"] == "DONE"
    await client.close()


async def test_two_are_run_one_after_the_other(real: Harness) -> None:
    clients = [await real.client() for _ in range(4)]
    payload = {"ms": 20}
    sent = [client.send("job.execute", job_type="semantica.sleep", payload=payload) for client in clients]
    done = [(await client.result(number))["job"] for client, number in zip(clients, sent, strict=True)]
    assert [job["state"] for job in done] == ["DONE"] * 4
    spans = sorted((job["started_at"], job["finished_at"]) for job in done)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    for client in clients:
        await client.close()


async def test_a_caller_that_goes_away_leaves_the_job_running_and_its_end_releases(real: Harness) -> None:
    client = await real.client()
    client.send("job.execute", **LONG)
    while (held := await active(real)) is None:
        pass
    await client.close()
    await real.settle()
    assert (await active(real))["job_id"] == held["job_id"]
    await real.call("job.cancel", job_id=held["job_id"], wait_ms=8000)
    assert await active(real) is None


@pytest.mark.parametrize(
    ("argv", "code"), [(["/nowhere/no-such-command"], "E_SPAWN"), (["sh", "-c", "exit 3"], "E_EXIT")]
)
async def test_a_failure_releases_it(real: Harness, argv: list[str], code: str) -> None:
    job = (await real.call("job.execute", **command(*argv)))["job"]
    assert (job["state"], job["error"]["code"]) == ("FAILED", code)
    assert await active(real) is None


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"schedule": {"type": "AFTER", "delay_ms": 5}}, "$.schedule"),
        ({"schedule": {"type": "CONDITION", "wait_for_idle": True}}, "$.schedule"),
        ({"parent_job_id": "abcd"}, "$.parent_job_id"),
        ({"parents": ["abcd"]}, "$.parents"),
        ({"subject_key": "s", "debounce_ms": 5}, "$.debounce_ms"),
        ({"execution_mode": "EXTERNAL"}, "$.execution_mode"),
        ({"supersede": "keep", "subject_key": "s"}, "$.supersede"),
        ({"supersede": "append", "subject_key": "s"}, "$.supersede"),
        ({"wait_ms": -1}, "$.wait_ms"),
        ({"wait_for": "never"}, "$.wait_for"),
    ],
)
async def test_what_makes_no_sense_is_refused(real: Harness, fields: dict[str, Any], path: str) -> None:
    error = await refused(real, job_type="semantica.noop", **fields)
    assert (error.code, error.data["path"]) == (-32602, path)
    assert error.data["hint"]
    assert (await real.call("job.list"))["items"] == []
    assert await active(real) is None


async def test_the_same_key_is_the_same_job_and_is_run_once(real: Harness) -> None:
    spec = {"job_type": "semantica.noop", "idempotency_key": "k"}
    first = await real.call("job.execute", **spec)
    again = await real.call("job.execute", **spec, wait_ms=50)
    assert (again["existing"], again["job"]["job_id"]) == (True, first["job"]["job_id"])
    assert again["job"]["run_count"] == 1


async def test_by_default_it_is_answered_within_eight_seconds(real: Harness) -> None:
    document = await real.call("rpc.discover")
    (method,) = [method for method in document["methods"] if method["name"] == "job.execute"]
    (wait,) = [param for param in method["params"] if param["name"] == "wait_ms"]
    assert wait["schema"]["default"] == 8000
