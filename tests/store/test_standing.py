"""The question behind job.explain: a job and all that stands around it, each against what was done to make it so."""

from collections.abc import AsyncIterator
from typing import Any

import aiosqlite
import pytest

from semantica_daemon.errors import AmbiguousId, JobNotFound
from semantica_daemon.model.machine import Idle, MachineStatus, Power
from semantica_daemon.model.reason import JobSituation, UnderWay, explain
from semantica_daemon.store.standing import standing
from semantica_daemon.store.writes.groups import create
from semantica_daemon.store.writes.queues import configure, pause
from semantica_daemon.wire.group import CreateGroupParams
from semantica_daemon.wire.job_view import Condition
from semantica_daemon.wire.queue import ConfigureParams, KeyRule, PauseParams, Rate
from semantica_daemon.wire.reason import Explanation
from tests.builders import NOW, Store
from tests.store.steps import BAD, HOPELESS, LATER, begin, claims, emitted, end, make, put, stop, tick
from tests.store.timetable import MINUTE, made, schedule, template


@pytest.fixture
async def db(forged: Store) -> AsyncIterator[aiosqlite.Connection]:
    async with aiosqlite.connect(f"file:{forged.path}?mode=ro", uri=True, isolation_level=None) as connection:
        yield connection


async def stands(store: Store, db: aiosqlite.Connection, job_id: str) -> JobSituation:
    found = await standing(db, job_id, store.limits)
    assert not db.in_transaction
    return found


async def why(store: Store, db: aiosqlite.Connection, job_id: str) -> Explanation:
    seen = MachineStatus(idle=Idle(detail="somebody types"), power=Power(detail="on battery"))
    return explain(await stands(store, db, job_id), seen, store.now, lambda at: f"[{at - NOW}]")


async def test_a_job_is_found_by_its_id_or_a_unique_prefix(store: Store, db: aiosqlite.Connection) -> None:
    one, two = put(store).job_id, put(store).job_id
    assert (await stands(store, db, one)).job_id == one
    shared = next(length for length in range(36) if one[length] != two[length])
    assert (await stands(store, db, two[: shared + 4].upper())).job_id == two
    for wrong, prefix in ((AmbiguousId, one[:shared]), (JobNotFound, "f" * 36)):
        with pytest.raises(wrong):
            await standing(db, prefix, store.limits)
        assert not db.in_transaction


async def test_who_is_ahead_has_more_priority_or_came_before(store: Store, db: aiosqlite.Connection) -> None:
    put(store, queue="none", priority=1)
    put(store, queue="none", priority=-1)
    first = put(store, queue="none").job_id
    put(store, queue="one", priority=9)
    second = put(store, queue="none").job_id
    put(store, queue="none", priority=5)
    put(store, queue="none", schedule=LATER, priority=9)
    assert [(await stands(store, db, job_id)).ahead for job_id in (first, second)] == [2, 3]


@pytest.mark.parametrize("state", ["SCHEDULED", "RUNNING", "DONE"])
async def test_nobody_is_ahead_of_what_is_not_queued(store: Store, db: aiosqlite.Connection, state: str) -> None:
    put(store, queue="none", priority=9)
    assert (await stands(store, db, make(store, state).job_id)).ahead is None


async def test_what_runs_is_there_with_its_queue_and_start(store: Store, db: aiosqlite.Connection) -> None:
    first = begin(store, queue="one")
    store.now += 5
    second = begin(store)
    found = await stands(store, db, put(store).job_id)
    assert sorted(found.running, key=lambda run: run.started_at) == [
        UnderWay(first.run.job_id, "one", NOW),
        UnderWay(second.run.job_id, "default", NOW + 5),
    ]


async def test_the_lane_s_running_job_is_named(store: Store, db: aiosqlite.Connection) -> None:
    running = begin(store, subject_key="s").run.job_id
    blocked = put(store, subject_key="s").job_id
    free = [
        put(store).job_id,
        put(store, "semantica.echo", subject_key="s").job_id,
        put(store, subject_key="s", supersede="none").job_id,
        running,
    ]
    assert (await stands(store, db, blocked)).lane_runs == running
    assert [(await stands(store, db, job_id)).lane_runs for job_id in free] == [None] * 4


async def test_the_job_that_comes_before_in_a_lane_is_named_whatever_it_waits_for(
    store: Store, db: aiosqlite.Connection
) -> None:
    lane: dict[str, Any] = {"subject_key": "s", "supersede": "append", "max_attempts": 2}
    first, *others = (put(store, **lane).job_id for _ in range(4))
    put(store, "semantica.echo", **lane)
    found = [await stands(store, db, job_id) for job_id in (first, *others)]
    assert [(one.lane_runs, one.lane_ahead, one.ahead) for one in found] == [
        (None, 0, 0), (first, 0, 1), (first, 1, 2), (first, 2, 3)
    ]  # fmt: skip
    assert found[1].lane_state == "QUEUED"
    running = claims(store)[0]
    last = await stands(store, db, others[-1])
    assert (last.lane_runs, last.lane_state, last.lane_ahead, last.ahead) == (first, "RUNNING", 2, 2)
    end(store, running, BAD)
    last = await stands(store, db, others[-1])
    assert (last.lane_runs, last.lane_state, last.lane_ahead, last.ahead) == (first, "SCHEDULED", 2, 3)


async def test_a_running_job_outside_the_lanes_holds_nobody_back(store: Store, db: aiosqlite.Connection) -> None:
    begin(store, subject_key="s", supersede="none")
    assert (await stands(store, db, put(store, subject_key="s").job_id)).lane_runs is None


async def test_conditions_are_shown_with_what_has_come(store: Store, db: aiosqlite.Connection) -> None:
    schedule = {"type": "CONDITION", "wait_for_event": "e", "conditions": {"b": "2", "a": "1"}}
    job_id = put(store, schedule=schedule).job_id
    store.now += 5
    emitted(store, "b", "2"), emitted(store, "e")
    found = await stands(store, db, job_id)
    assert found.conditions == (Condition("a", "1", None), Condition("b", "2", NOW + 5))
    assert (found.wait_for_event, found.event_met_at) == ("e", NOW + 5)


@pytest.mark.parametrize(
    ("pauses", "expected"),
    [
        ([], (False, None)),
        ([("other", 10)], (False, None)),
        ([("default", None)], (True, None)),
        ([("default", 10)], (True, NOW + 10)),
        ([(None, 10)], (True, NOW + 10)),
        ([("default", 10), (None, 20)], (True, NOW + 20)),
        ([("default", 10), (None, None)], (True, None)),
    ],
)
async def test_a_pause_of_its_queue_or_of_all_holds_it_back_until_the_later_end(
    store: Store, db: aiosqlite.Connection, pauses: list[tuple[str | None, int | None]], expected: tuple[bool, int]
) -> None:
    for queue, ms in pauses:
        store.run(pause, PauseParams(queue, ms))
    found = await stands(store, db, put(store).job_id)
    assert (found.paused, found.resume_at) == expected
    assert found.all_paused == any(queue is None for queue, _ in pauses)


async def test_the_slots_are_those_in_force(store: Store, db: aiosqlite.Connection) -> None:
    jobs = {queue: put(store, queue=queue).job_id for queue in ("default", "one", "none")}
    found = {queue: await stands(store, db, job_id) for queue, job_id in jobs.items()}
    assert {queue: (one.slots, one.max_slots) for queue, one in found.items()} == {
        "default": (2, 2), "one": (1, 2), "none": (0, 2),
    }  # fmt: skip
    store.run(configure, ConfigureParams("none", slots=7))
    assert (await stands(store, db, jobs["none"])).slots == 7


async def test_how_long_runs_take_is_known_once_one_has_ended(store: Store, db: aiosqlite.Connection) -> None:
    waiting = put(store, queue="none").job_id
    other = begin(store).run.job_id
    assert (await stands(store, db, other)).recent_run_ms is None
    for took in (1000, 500):
        claimed = begin(store)
        store.now += took
        end(store, claimed)
    assert (await stands(store, db, other)).recent_run_ms == 900
    assert (await stands(store, db, waiting)).recent_run_ms is None, "each queue has its own"


async def test_who_has_the_turn_is_named(store: Store, db: aiosqlite.Connection) -> None:
    template(store)
    schedule(store)
    tick(store, MINUTE), tick(store, MINUTE), tick(store, MINUTE)
    first, second, third = (job["id"] for job in made(store))
    assert [(await stands(store, db, job)).earlier for job in (first, second, third)] == [None, first, first]
    stop(store, first)
    assert [(await stands(store, db, job)).earlier for job in (second, third)] == [None, second]


async def test_how_it_ended_is_told(store: Store, db: aiosqlite.Connection) -> None:
    claimed = begin(store, max_attempts=1)
    store.now += 1500
    end(store, claimed, BAD)
    found = await why(store, db, claimed.run.job_id)
    assert (found.summary, found.reasons[0].code) == ("failed: it broke", "E_HANDLER")


async def test_a_sentence_for_everything_that_holds_a_job_up(store: Store, db: aiosqlite.Connection) -> None:
    """As job.explain puts it together."""
    waits: list[tuple[dict[str, Any], str]] = [
        (LATER, "scheduled for [5000], in 5s"),
        ({"type": "CONDITION", "wait_for_idle": True}, "not known to be idle: somebody types"),
        ({"type": "CONDITION", "require_charging": True}, "on battery"),
        ({"type": "CONDITION", "wait_for_event": "git:commit"}, "event git:commit has not been emitted yet"),
        ({"type": "CONDITION", "conditions": {"branch": "main"}}, "event branch=main has not been emitted yet"),
    ]
    for waiting, sentence in waits:
        assert (await why(store, db, put(store, schedule=waiting).job_id)).summary == sentence


async def test_a_sentence_for_a_full_queue_a_retry_and_a_quiet_lane(store: Store, db: aiosqlite.Connection) -> None:
    put(store, queue="one"), put(store, queue="one")
    last = put(store, queue="one").job_id
    claims(store)
    found = await why(store, db, last)
    assert (found.summary, found.queue_position) == ("1 ahead in one; the only slot of one is in use", 1)
    claimed = begin(store, max_attempts=6, backoff_base_ms=4000)
    end(store, claimed, BAD)
    assert (await why(store, db, claimed.run.job_id)).summary.startswith("attempt 2 of 6 in ")
    quiet = put(store, subject_key="s", debounce_ms=300).job_id
    assert (await why(store, db, quiet)).summary == "its subject has to be quiet for 300ms more"


async def test_parents_are_named_with_their_state(store: Store, db: aiosqlite.Connection) -> None:
    running, waiting = begin(store).run.job_id, put(store).job_id
    child = put(store, parents=[running, waiting]).job_id
    found = await why(store, db, child)
    assert [(reason.kind, reason.job_id, reason.state) for reason in found.reasons] == [
        ("parent", *one) for one in sorted([(running, "RUNNING"), (waiting, "QUEUED")])
    ]
    assert f"job {running[:8]}, which it needs, is still running" in found.summary
    assert found.estimated_start_at is None


async def test_a_job_that_waits_for_any_end_or_for_a_failure(store: Store, db: aiosqlite.Connection) -> None:
    other = begin(store).run.job_id
    for waits, end_of in (
        ({"wait_for_event": f"job:{other}"}, "has ended"),
        ({"conditions": {f"job:{other}": "FAILED"}}, "has ended as FAILED"),
    ):
        child = put(store, schedule={"type": "CONDITION", **waits}).job_id
        expected = f"job {other[:8]}, which it needs, is still running; it starts when that {end_of}"
        assert (await why(store, db, child)).summary == expected


async def test_of_many_parents_some_are_named_and_the_rest_is_counted(store: Store, db: aiosqlite.Connection) -> None:
    parents = [put(store).job_id for _ in range(13)]
    found = await why(store, db, put(store, parents=parents).job_id)
    assert [reason.kind for reason in found.reasons] == ["parent"] * 10 + ["parents"]
    assert found.reasons[-1].message == "it waits for 3 more jobs"


async def test_a_cancel_is_not_blamed_on_a_parent_that_failed_later(store: Store, db: aiosqlite.Connection) -> None:
    parent = begin(store)
    child, other = put(store, parents=[parent.run.job_id]).job_id, put(store, parents=[parent.run.job_id]).job_id
    stop(store, child)
    store.now += 5
    end(store, parent, HOPELESS)
    assert (await why(store, db, child)).summary == "cancelled"
    assert (await why(store, db, other)).summary == (
        f"cancelled: it needed job {parent.run.job_id[:8]}, which ended as FAILED"
    )


async def test_a_full_key_is_named_with_the_job_that_holds_it(store: Store, db: aiosqlite.Connection) -> None:
    running = begin(store, concurrency_key="repo:a")
    waiting = put(store, concurrency_key="repo:a").job_id
    found = await why(store, db, waiting)
    (reason,) = found.reasons
    assert (reason.kind, reason.key, reason.queue, reason.job_id) == ("key", "repo:a", "default", running.run.job_id)
    assert reason.message == f"job {running.run.job_id[:8]} with the key repo:a has not ended"
    assert found.estimated_start_at is None
    store.run(configure, ConfigureParams("default", keys={"repo:*": 2}))
    assert [one.kind for one in (await why(store, db, waiting)).reasons] == ["ahead"]


async def test_the_rate_that_is_used_up_has_an_end(store: Store, db: aiosqlite.Connection) -> None:
    keys: Any = {"api:*": KeyRule(2, Rate(1, 5000))}
    store.run(configure, ConfigureParams("default", rate=Rate(2, 1000), keys=keys))
    begin(store, concurrency_key="api:x")
    end(store, begin(store))
    found = await why(store, db, put(store, concurrency_key="api:x").job_id)
    assert [(one.kind, one.key, one.at) for one in found.reasons] == [
        ("rate", "api:x", NOW + 5000),
        ("rate", None, NOW + 1000),
    ]
    assert found.reasons[1].message == "the rate of queue default lets the next job start [1000], in 1s"
    assert found.estimated_start_at == NOW + 5000
    store.now += 5000
    assert [one.kind for one in (await why(store, db, put(store).job_id)).reasons] == ["ahead"]


async def test_a_full_group_is_named(store: Store, db: aiosqlite.Connection) -> None:
    store.run(create, CreateGroupParams("g", "sequential"))
    running = begin(store, chain_group_id="g", max_attempts=2, backoff_base_ms=1000)
    waiting = put(store, chain_group_id="g").job_id
    for _ in range(2):
        (reason,) = (await why(store, db, waiting)).reasons
        assert (reason.kind, reason.group, reason.job_id) == ("group", "g", running.run.job_id)
        if store.job(running.run.job_id)["state"] == "RUNNING":
            end(store, running, BAD)


async def test_a_member_of_a_stopped_group_names_the_one_that_failed(store: Store, db: aiosqlite.Connection) -> None:
    store.run(create, CreateGroupParams("g", on_failure="stop"))
    failing = begin(store, chain_group_id="g")
    waiting = put(store, chain_group_id="g").job_id
    end(store, failing, HOPELESS)
    found = await why(store, db, waiting)
    assert found.summary == f"cancelled: job {failing.run.job_id[:8]} of its group failed"


async def test_a_job_of_several_slots_names_how_many_it_needs(store: Store, db: aiosqlite.Connection) -> None:
    begin(store)
    wide = put(store, slots=2).job_id
    assert (await why(store, db, wide)).summary == "it needs 2 slots, 1 of 2 of default are free"
    behind = put(store).job_id
    assert (await stands(store, db, behind)).ahead == 1
    store.run(configure, ConfigureParams("default", slots=1))
    found = await why(store, db, wide)
    assert found.summary == "it needs 2 slots, and queue default has only 1"
    assert found.estimated_start_at is None
