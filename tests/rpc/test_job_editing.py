"""job.move, job.update, job.hold, job.release and job.archive over the socket: errors, dry runs, portions, restarts."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_case
from tests.engine.commands import until
from tests.harness import Harness, RpcError, daemon

LONG = {"type": "AFTER", "delay_ms": 3_600_000}
GONE = "00000000-0000-4000-8000-000000000000"
SELECTING = ["job.hold", "job.release", "job.archive", "job.cancel"]


async def refused(harness: Harness, method: str, /, **params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await harness.call(method, **params)
    return caught.value


async def paused_jobs(real: Harness, count: int, queue: str = "still", **spec: Any) -> list[str]:
    """Jobs of a queue that is paused, in their order."""
    await real.call("queue.pause", queue=queue)
    return [(await real.enqueue(queue=queue, **spec))["job_id"] for _ in range(count)]


async def order(real: Harness, queue: str = "still") -> list[str]:
    jobs = (await real.call("job.list", queue=[queue], state=["QUEUED"], limit=200))["items"]
    return [job["job_id"] for job in sorted(jobs, key=lambda job: (-job["priority"], job["position"]))]


async def test_moved_jobs_start_in_their_new_order(real: Harness) -> None:
    a, b, c, d = await paused_jobs(real, 4)
    await real.call("queue.configure", queue="still", slots=1)
    await real.call("job.move", job_id=d, to="front")
    await real.call("job.move", job_id=a, after=c[:12])
    await real.call("job.move", job_id=b, to="back")
    assert await order(real) == [d, c, a, b]
    await real.call("queue.resume", queue="still")
    ended = [await real.ended(job_id) for job_id in (a, b, c, d)]
    assert [job["job_id"] for job in sorted(ended, key=lambda job: (job["started_at"], job["run_id"]))] == [d, c, a, b]


@each_case(
    ("params", "code", "name"),
    [
        ({}, -32602, "E_PARAMS"),
        ({"to": "front", "before": "abcd"}, -32602, "E_PARAMS"),
        ({"to": "middle"}, -32602, "E_PARAMS"),
        ({"before": "x"}, -32602, "E_PARAMS"),
        ({"before": GONE}, 4001, "E_JOB_NOT_FOUND"),
    ],
)
async def test_a_move_that_cannot_be_changes_nothing(real: Harness, params: Any, code: int, name: str) -> None:
    (job_id,) = await paused_jobs(real, 1)
    before = await real.job(job_id)
    error = await refused(real, "job.move", job_id=job_id, **params)
    assert (error.code, error.data["code"]) == (code, name)
    assert error.data["hint"]
    assert await real.job(job_id) == before


async def test_moving_and_editing_what_runs_is_a_conflict(real: Harness) -> None:
    client = await real.client()
    await client.call("event.subscribe", event_types=["job.started"])
    running = (await real.enqueue("semantica.sleep", payload={"ms": 60_000}))["job_id"]
    await client.events(1)
    (waiting,) = await paused_jobs(real, 1)
    for method, params, name in (
        ("job.move", {"job_id": running, "to": "front"}, "E_NOT_QUEUED"),
        ("job.move", {"job_id": waiting, "after": running}, "E_NOT_QUEUED"),
        ("job.update", {"job_id": running, "priority": 3}, "E_NOT_WAITING"),
    ):
        error = await refused(real, method, **params)
        assert (error.code, error.data["code"], error.data["retryable"]) == (4002, name, False)
    assert await real.call("job.hold", job_id=running) == {"changed": [], "unchanged": [running]}
    assert await real.call("job.archive", job_id=running) == {"changed": [], "unchanged": [running]}
    await real.call("job.cancel", job_id=running, wait_ms=5000)
    await client.close()


@each_case(
    ("changes", "path"),
    [
        ({}, "$"),
        ({"priority": 101}, "$.priority"),
        ({"user_tag": ""}, "$.user_tag"),
        ({"scheduled_at": -1}, "$.scheduled_at"),
        ({"payload": {"argv": []}}, "$.payload.argv"),
        ({"env_vars": {"A=B": "1"}}, "$.env_vars"),
        ({"queue": "other"}, "$.queue"),
    ],
)
async def test_an_update_that_cannot_be_changes_nothing(real: Harness, changes: Any, path: str) -> None:
    job = {"execution_mode": "SUBPROCESS", "payload": {"argv": ["true"]}}
    job_id = (await real.enqueue("cmd", schedule=LONG, **job))["job_id"]
    before = await real.job(job_id)
    error = await refused(real, "job.update", job_id=job_id, **changes)
    assert (error.code, error.data["path"]) == (-32602, path)
    assert await real.job(job_id) == before


@each_case("method", SELECTING)
async def test_every_method_takes_the_same_selections(shared: Harness, method: str) -> None:
    for selector in ("user_tag", "chain_group_id", "subject_key", "queue", "schedule_id"):
        answer = await shared.call(method, **{selector: "nosuch"})
        assert set().union(*answer.values()) == set()
    for given in ({}, {"queue": "q", "user_tag": "t"}, {"dry_run": True}):
        assert (await refused(shared, method, **given)).data["path"] == "$"
    error = await refused(shared, method, job_ids=[GONE])
    assert (error.code, error.data["code"]) == (4001, "E_JOB_NOT_FOUND")


@each_case("method", SELECTING)
async def test_a_dry_run_answers_what_the_call_then_does(real: Harness, method: str) -> None:
    held = (await real.enqueue(hold=True, user_tag="t"))["job_id"]
    waiting = (await real.enqueue(schedule=LONG, user_tag="t"))["job_id"]
    ended = (await real.enqueue(user_tag="t"))["job_id"]
    await real.ended(ended)
    for selection in ({"user_tag": "t"}, {"job_ids": [held, waiting, ended]}):
        before = [await real.job(job_id) for job_id in (held, waiting, ended)]
        sequence = (await real.call("event.list"))["next_sequence"]
        would = await real.call(method, **selection, dry_run=True)
        assert [await real.job(job_id) for job_id in (held, waiting, ended)] == before
        assert (await real.call("event.list"))["next_sequence"] == sequence
        assert await real.call(method, **selection) == would


async def test_a_dry_run_refuses_what_the_call_refuses(real: Harness) -> None:
    assert (await refused(real, "job.hold", job_ids=[GONE], dry_run=True)).code == 4001


async def test_a_long_queue_is_held_and_released_whole(real: Harness) -> None:
    """More than one transaction: nothing is left out, and other calls are answered meanwhile."""
    specs = [{"job_type": "semantica.noop", "queue": "long", "schedule": LONG}] * 800
    ids: list[str] = []
    for _ in range(3):
        ids += [ack["job_id"] for ack in (await real.call("job.enqueue_many", jobs=specs))["jobs"]]
    assert await real.call("job.hold", queue="long") == {"changed": ids, "unchanged": []}
    held = await real.call("job.list", queue=["long"], held=True, limit=200)
    assert len(held["items"]) == 200
    assert held["next_cursor"] is not None
    assert await real.call("job.release", queue="long") == {"changed": ids, "unchanged": []}
    assert (await real.call("job.list", queue=["long"], held=True))["items"] == []


async def test_a_held_job_is_explained_and_survives_a_restart(home: Path) -> None:
    async with daemon(home) as harness:
        job_id = (await harness.enqueue(hold=True))["job_id"]
        since = (await harness.job(job_id))["held_at"]
    async with daemon(home) as harness:
        why = await harness.call("job.explain", job_id=job_id)
        assert [(one["kind"], one["since"]) for one in why["reasons"]] == [("held", since)]
        assert why["summary"].startswith("held since ")
        assert why["estimated_start_at"] is None
        await harness.call("job.release", job_id=job_id)
        assert (await harness.ended(job_id))["state"] == "DONE"


async def test_a_plan_with_hold_says_so(shared: Harness) -> None:
    plan = await shared.call("job.plan", job_type="semantica.noop", hold=True)
    assert (plan["state"], plan["starts_when"]) == ("SCHEDULED", "when it is released and a slot is free")


async def test_a_job_that_has_lost_its_secret_gets_it_again(home: Path) -> None:
    script = 'test "$A_TOKEN" = one'
    job = {"execution_mode": "SUBPROCESS", "payload": {"argv": ["sh", "-c", script]}, "hold": True}
    async with daemon(home) as harness:
        ids = [(await harness.enqueue("sh", env_vars={"A_TOKEN": "one"}, **job))["job_id"] for _ in range(2)]
    async with daemon(home) as harness:
        await harness.call("job.update", job_id=ids[0], env_vars={"A_TOKEN": "one"})
        await harness.call("job.release", job_ids=ids)
        ended = [await harness.ended(job_id) for job_id in ids]
        assert [one["state"] for one in ended] == ["DONE", "FAILED"]
        assert ended[1]["error"]["code"] == "E_SECRET_LOST"


async def test_a_secret_that_was_taken_back_does_not_reach_the_job(real: Harness) -> None:
    job = {"execution_mode": "SUBPROCESS", "payload": {"argv": ["sh", "-c", 'test -z "$A_TOKEN"']}, "hold": True}
    job_id = (await real.enqueue("sh", env_vars={"A_TOKEN": "one"}, **job))["job_id"]
    assert (await real.call("job.update", job_id=job_id, env_vars={}))["env_vars"] is None
    await real.call("job.release", job_id=job_id)
    assert (await real.ended(job_id))["state"] == "DONE"


async def test_room_among_very_many_equal_positions_is_made_in_several_transactions(home: Path) -> None:
    async with daemon(home) as harness:
        await harness.call("queue.pause", queue="still")
        specs = [{"job_type": "semantica.noop", "queue": "still"}] * 1000
        for _ in range(2):
            await harness.call("job.enqueue_many", jobs=specs)
    with sqlite3.connect(home / "meta.db") as connection:
        connection.execute("UPDATE jobs SET position = 100")
        rows = connection.execute("SELECT id FROM jobs ORDER BY created_at, id").fetchall()
    connection.close()
    ids = [row[0] for row in rows]
    async with daemon(home, seed=1) as harness:
        moved = await harness.call("job.move", job_id=ids[-1], before=ids[300])
        assert moved["position"] == (await harness.job(ids[-1]))["position"]
        newest = (await harness.enqueue(queue="still"))["job_id"]
    with sqlite3.connect(home / "meta.db") as connection:
        rows = connection.execute("SELECT id FROM jobs ORDER BY position, created_at, id").fetchall()
    connection.close()
    assert [row[0] for row in rows] == [*ids[:300], ids[-1], *ids[300:-1], newest]


async def command(harness: Harness) -> str:
    payload = {
        "argv": [
            "sh",
            "-c",
            "echo out; mkdir $SEMANTICA_OUTPUT/a; touch $SEMANTICA_OUTPUT/a/b; chmod 500 $SEMANTICA_OUTPUT/a",
        ]
    }
    ack = await harness.enqueue("sh", execution_mode="SUBPROCESS", payload=payload)
    return str((await harness.ended(ack["job_id"]))["job_id"])


async def test_the_files_of_an_archived_job_are_deleted_and_its_row_stays(real: Harness) -> None:
    """Folders that nobody may write to are no obstacle."""
    job_id = await command(real)
    folder = real.paths.data / "workspaces" / job_id
    assert (folder / "output" / "a" / "b").exists()
    assert await real.call("job.archive", job_id=job_id) == {"changed": [job_id], "unchanged": []}
    await until(lambda: not folder.exists())
    job = await real.job(job_id)
    assert (job["state"], job["log_path"], [run["log_path"] for run in job["runs"]]) == ("DONE", None, [None])
    error = await refused(real, "job.logs", job_id=job_id)
    assert (error.code, error.data["code"], error.data["job_id"]) == (4001, "E_ARCHIVED", job_id)
    why = await real.call("job.explain", job_id=job_id)
    assert [one["kind"] for one in why["reasons"]] == ["done", "archived"]
    (event,) = (await real.call("event.list", event_types=["job.archived"]))["events"]
    assert event["job_id"] == job_id


async def test_what_a_crash_has_left_is_deleted_at_the_next_start(home: Path) -> None:
    async with daemon(home) as harness:
        job_id = await command(harness)
    with sqlite3.connect(home / "meta.db") as connection:
        connection.execute("UPDATE jobs SET archived_at = 5")
        connection.execute("INSERT INTO workspace_removals (job_id) VALUES (?)", (job_id,))
    connection.close()
    folder = home / "workspaces" / job_id
    assert folder.exists()
    async with daemon(home) as harness:
        await until(lambda: not folder.exists())
        await harness.settle()
    with sqlite3.connect(home / "meta.db") as connection:
        assert connection.execute("SELECT * FROM workspace_removals").fetchall() == []
    connection.close()


async def test_listings_may_leave_archived_jobs_out(real: Harness) -> None:
    ids = [(await real.enqueue(user_tag="t"))["job_id"] for _ in range(2)]
    for job_id in ids:
        await real.ended(job_id)
    await real.call("job.archive", job_id=ids[0])
    for archived, expected in ((None, ids), (True, ids[:1]), (False, ids[1:])):
        for more in ({}, {"user_tag": "t"}, {"state": ["DONE"]}, {"sort": "ended"}):
            items = (await real.call("job.list", archived=archived, **more))["items"]
            assert {job["job_id"] for job in items} == set(expected), more
