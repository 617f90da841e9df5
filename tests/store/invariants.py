"""What holds of a store whatever was done to it: checked at the end of each test, and by the machine step by step."""

import itertools
from collections import Counter
from collections.abc import Iterator

from semantica_daemon.model.event import ENDS
from semantica_daemon.model.state import LIVE, NEW, QUEUED, RUNNING, SCHEDULED, TERMINAL, TRANSITIONS
from semantica_daemon.store.counts import COLUMN_OF, COLUMNS
from tests.builders import Store

STATE_AFTER = {
    "job.queued": QUEUED, "job.requeued": QUEUED, "job.scheduled": SCHEDULED, "job.retrying": SCHEDULED,
    "job.started": RUNNING, **{event: event.removeprefix("job.").upper() for event in ENDS},
}  # fmt: skip


def check(store: Store, counted: bool = True) -> None:
    """`counted` is off where a test has removed or forged rows behind the store's back."""
    check_stream(store)
    check_states(store)
    check_lanes(store)
    check_runs(store)
    if counted:
        check_counts(store)


def check_stream(store: Store) -> None:
    """A sequence without gaps, global and per job; replaying it gives the states in the table.

    Of a command job.started is told when its process exists: until then it is RUNNING and the stream says QUEUED.
    """
    commands = {job["id"] for job in store.rows("SELECT id FROM jobs WHERE execution_mode = 'SUBPROCESS'")}
    events = store.events()
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert store.database.sequence == len(events)
    replayed: dict[str, str] = {}
    told: Counter[str] = Counter()
    for event in events:
        job_id = event["job_id"]
        if job_id is not None:
            told[job_id] += 1
            assert event["job_sequence"] == told[job_id]
            assert replayed.get(job_id) not in TERMINAL, "nothing is told after the end"
            before = replayed.get(job_id, NEW)
            unseen = before == QUEUED and job_id in commands
            replayed[job_id] = after = STATE_AFTER.get(event["event_type"], before)
            allowed = {*TRANSITIONS[before], *(TRANSITIONS[RUNNING] if unseen else ())}
            assert event["event_type"] not in STATE_AFTER or after in allowed
    for job in store.rows("SELECT id, state, event_count, pid, execution_mode FROM jobs"):
        seen = replayed[job["id"]]
        unseen = (seen, job["execution_mode"], job["pid"]) == (QUEUED, "SUBPROCESS", None)
        assert (RUNNING if unseen and job["state"] == RUNNING else seen) == job["state"]
        assert told[job["id"]] == job["event_count"]


def check_states(store: Store) -> None:
    for job in store.rows("SELECT * FROM jobs"):
        assert (job["finished_at"] is not None) == (job["state"] in TERMINAL)
        assert (job["superseded_by"] is not None) >= (job["state"] == "SUPERSEDED")
        assert job["attempts"] <= max(1, job["max_attempts"])
        assert job["attempts"] <= job["run_count"]


def check_lanes(store: Store) -> None:
    """One job of a lane waits at most, it is the newest, and the lane knows it."""
    live = store.rows(
        f"SELECT * FROM jobs WHERE state IN {LIVE} AND subject_key <> '' AND supersede <> 'none' AND retry_of IS NULL"
    )
    waiting = Counter((job["subject_key"], job["job_type"]) for job in live if job["state"] != RUNNING)
    running = Counter((job["subject_key"], job["job_type"]) for job in live if job["state"] == RUNNING)
    assert all(count == 1 for count in (*waiting.values(), *running.values()))
    known = {(lane["subject_key"], lane["job_type"]): lane for lane in store.rows("SELECT * FROM lanes")}
    for job in live:
        lane = known[(job["subject_key"], job["job_type"])]
        assert job["generation"] <= lane["generation"]
        newest = job["id"] == lane["job_id"]
        assert newest == (job["generation"] == lane["generation"])
        assert lane["ended"] is None or not newest
        assert newest or job["state"] == RUNNING


def check_runs(store: Store) -> None:
    """A running job has one running run, its own; nobody else has any."""
    open_runs = {run["job_id"]: run["run_id"] for run in store.rows("SELECT * FROM job_runs WHERE status = 'RUNNING'")}
    running = {job["id"]: job["run_id"] for job in store.rows("SELECT id, run_id FROM jobs WHERE state = 'RUNNING'")}
    assert open_runs == running
    spans: dict[str, list[tuple[int, float]]] = {}
    for run in store.rows("SELECT * FROM job_runs ORDER BY rowid"):
        end = float("inf") if run["finished_at"] is None else run["finished_at"]
        spans.setdefault(run["job_id"], []).append((run["started_at"], end))
    for one in spans.values():
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(one)), "runs overlap"


def check_counts(store: Store) -> None:
    """The maintained counts are what counting would give, on disk and in memory."""
    kept = {row.pop("queue"): row for row in store.rows("SELECT * FROM queue_counts")}
    counted = recount(store)
    nothing = dict.fromkeys(COLUMNS, 0)
    in_memory = store.database._counts.queues
    for queue in kept | counted | in_memory:
        assert kept.get(queue, nothing) == counted.get(queue, nothing), queue
        assert in_memory.get(queue, nothing) == counted.get(queue, nothing), queue
    assert store.database._counts.running == sum(counts["running"] for counts in counted.values())


def recount(store: Store) -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {}
    queue_of = {}
    for job in store.rows("SELECT id, queue, state FROM jobs"):
        queue_of[job["id"]] = job["queue"]
        counted.setdefault(job["queue"], dict.fromkeys(COLUMNS, 0))[COLUMN_OF[job["state"]]] += 1
    for run in store.rows("SELECT * FROM job_runs"):
        counts = counted[queue_of[run["job_id"]]]
        counts["runs"] += 1
        if run["finished_at"] is not None and "E_ENGINE_CRASH" not in (run["error"] or ""):
            counts["ended_runs"] += 1
            counts["run_ms"] += run["finished_at"] - run["started_at"]
    for job_id, ms in waits(store):
        counted[queue_of[job_id]]["wait_ms"] += ms
    return counted


def waits(store: Store) -> Iterator[tuple[str, int]]:
    """How long each claimed job had been QUEUED: every run follows one arrival in its queue, in order."""
    queued_at: dict[str, list[int]] = {}
    for event in store.events():
        if event["event_type"] in ("job.queued", "job.requeued"):
            queued_at.setdefault(event["job_id"], []).append(event["timestamp_at"])
    for run in store.rows("SELECT job_id, started_at FROM job_runs ORDER BY rowid"):
        yield run["job_id"], run["started_at"] - queued_at[run["job_id"]].pop(0)
