"""What holds of a store whatever was done to it: checked at the end of each test, and by the machine step by step."""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from semantica_daemon.model.event import ENDS
from semantica_daemon.model.reservation import Reservation
from semantica_daemon.model.state import LIVE, NEW, QUEUED, RUNNING, SCHEDULED, TERMINAL, TRANSITIONS
from semantica_daemon.store.counts import NOTHING, TOTAL_OF, TOTALS, USED_SLOTS
from semantica_daemon.store.external import ExternalSource, room_of
from semantica_daemon.store.rooms import GROUP, rooms_of
from semantica_daemon.store.tx import lane_room
from tests.builders import Store

STATE_AFTER = {
    "job.queued": QUEUED, "job.requeued": QUEUED, "job.scheduled": SCHEDULED, "job.retrying": SCHEDULED,
    "job.held": SCHEDULED, "job.started": RUNNING, **{event: event.removeprefix("job.").upper() for event in ENDS},
}  # fmt: skip

COUNTED = """
SELECT id, queue, state
FROM jobs
WHERE (SELECT min(sequence) FROM job_events WHERE job_number = number) > (
  SELECT coalesce(max(sequence), 0)
  FROM job_events AS deleted
  WHERE event_type = 'queue.deleted' AND deleted.queue = jobs.queue
)
"""


def check(store: Store, counted: bool = True) -> None:
    """`counted` is off where a test has removed or forged rows behind the store's back."""
    check_stream(store)
    check_states(store)
    check_lanes(store)
    check_retries(store)
    check_rooms(store)
    check_ready(store)
    check_workers(store)
    check_counted_rooms(store)
    check_runs(store)
    check_waiting(store)
    check_turns(store)
    check_reservation(store)
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
    newest: dict[str, int] = {}
    for event in events:
        job_id = event["job_id"]
        if job_id is not None:
            told[job_id] += 1
            assert event["job_sequence"] == told[job_id]
            assert event["previous"] == newest.get(job_id), "each event names the one before"
            newest[job_id] = event["sequence"]
            is_over = replayed.get(job_id) in TERMINAL and event["event_type"] != "job.archived"
            assert not is_over, "nothing is told after the end"
            before = replayed.get(job_id, NEW)
            unseen = before == QUEUED and job_id in commands
            replayed[job_id] = after = STATE_AFTER.get(event["event_type"], before)
            allowed = {*TRANSITIONS[before], *(TRANSITIONS[RUNNING] if unseen else ())}
            allowed |= {before} if event["event_type"] == "job.held" else set()
            assert event["event_type"] not in STATE_AFTER or after in allowed
    for job in store.rows("SELECT id, state, event_count, last_event, pid, execution_mode FROM jobs"):
        seen = replayed[job["id"]]
        unseen = (seen, job["execution_mode"], job["pid"]) == (QUEUED, "SUBPROCESS", None)
        assert (RUNNING if unseen and job["state"] == RUNNING else seen) == job["state"]
        assert told[job["id"]] == job["event_count"]
        assert newest.get(job["id"]) == job["last_event"]


def check_states(store: Store) -> None:
    for job in store.rows("SELECT * FROM jobs"):
        assert (job["finished_at"] is not None) == (job["state"] in TERMINAL)
        assert (job["superseded_by"] is not None) >= (job["state"] == "SUPERSEDED")
        assert job["attempts"] <= max(1, job["max_attempts"])
        assert job["attempts"] <= job["run_count"]


def check_lanes(store: Store) -> None:
    """Of a lane at most one job runs, and one waits that is the newest, as the lane knows. A retry of an older
    generation may wait besides, marked as stale; a generation has one live job. keep and append jobs supersede nothing
    that waits, and append jobs are not superseded."""
    live = store.rows(f"SELECT * FROM jobs WHERE state IN {LIVE} AND subject_key <> '' AND supersede <> 'none'")
    running = Counter((job["subject_key"], job["job_type"]) for job in live if job["state"] == RUNNING)
    generations = Counter((job["subject_key"], job["job_type"], job["generation"]) for job in live)
    assert all(count == 1 for count in (*running.values(), *generations.values()))
    known = {(lane["subject_key"], lane["job_type"]): lane for lane in store.rows("SELECT * FROM lanes")}
    kept = {lane_of(job) for job in store.rows("SELECT subject_key, job_type FROM jobs WHERE supersede = 'keep'")}
    for job in live:
        lane = known[(job["subject_key"], job["job_type"])]
        assert job["generation"] <= lane["generation"]
        newest = job["id"] == lane["job_id"]
        assert newest == (job["generation"] == lane["generation"])
        assert lane["ended"] is None or not newest
        is_older_retry = job["retry_of"] is not None and job["stale"]
        is_mixed = lane["appends"] or lane_of(job) in kept
        assert newest or job["state"] == RUNNING or is_older_retry or is_mixed
        assert job["supersede"] != "append" or (lane["appends"] and not job["stale"])


def lane_of(job: dict[str, Any]) -> tuple[str, str]:
    return job["subject_key"], job["job_type"]


def check_retries(store: Store) -> None:
    """A retry names an earlier job that has ended, of the same lane and generation; all of a history name its first."""
    jobs = {job["id"]: job for job in store.rows("SELECT * FROM jobs")}
    first_of = {row["job_id"]: row["first_job_id"] for row in store.rows("SELECT * FROM job_retries")}
    expected: dict[str, str] = {}
    for job in jobs.values():
        if job["retry_of"] is not None:
            old = first = jobs[job["retry_of"]]
            assert old["state"] in TERMINAL
            assert old["number"] < job["number"]
            same = ("subject_key", "job_type", "generation")
            assert [old[name] for name in same] == [job[name] for name in same] or not job["subject_key"]
            while first["retry_of"] is not None:
                first = jobs[first["retry_of"]]
            expected |= {job["id"]: first["id"], first["id"]: first["id"]}
    assert first_of == expected


def check_rooms(store: Store) -> None:
    """A lane has room for one job that is RUNNING or may be claimed, or for an append job between two attempts; the
    others in its queue are blocked by it."""
    live = store.rows(
        "SELECT * FROM jobs WHERE state IN ('QUEUED', 'RUNNING') OR ("
        " state = 'SCHEDULED' AND supersede = 'append' AND started_at IS NOT NULL)"
    )
    holders: Counter[str] = Counter()
    for job in live:
        in_lane = job["subject_key"] and job["supersede"] != "none"
        room = lane_room(job["subject_key"], job["job_type"]) if in_lane else None
        is_blocked = job["state"] == QUEUED and job["claim_class"] == 4
        expected = room if is_blocked else room_of(source_of(job)) if is_for_workers(job) else None
        assert job["blocked_by"] == expected
        if room is not None and not is_blocked:
            holders[room] += 1
    assert all(count == 1 for count in holders.values()), "two jobs have the room of one lane"
    for job in live:
        assert job["claim_class"] != 4 or job["state"] != QUEUED or holders[job["blocked_by"]], "nobody would open it"


def is_for_workers(job: dict[str, Any]) -> bool:
    """Whether external workers may claim it."""
    return bool(job["state"] == QUEUED and job["execution_mode"] is None and job["claim_class"] == 5)


def source_of(job: dict[str, Any]) -> ExternalSource:
    needs = job["wait_for_idle"] + 2 * job["require_charging"]
    return job["queue"], job["job_type"], job["concurrency_key"], job["chain_group_id"], needs


def check_workers(store: Store) -> None:
    """Workers know each claimable job at a place that is not worse than its own; every external run has a lease, and
    no other run has one."""
    external = store.database.external
    for job in store.rows("SELECT * FROM jobs WHERE state = 'QUEUED' AND execution_mode IS NULL"):
        assert job["slots"] == 0
        if is_for_workers(job):
            source = source_of(job)
            assert external._best[source] <= (-job["priority"], job["position"], job["created_at"], job["id"])
            for wanted, heap in external._heaps.items():
                known = (external._best[source], source) in heap or source in external._parked_in
                assert known or not wanted.matches(source)
    running = store.rows("SELECT number, run_id FROM jobs WHERE state = 'RUNNING' AND execution_mode IS NULL")
    leases = store.rows("SELECT job_number AS number, run_id FROM leases")
    assert sorted(leases, key=str) == sorted(running, key=str)
    counted = Counter((run["worker_id"], run["status"]) for run in all_runs(store))
    for worker in store.rows("SELECT * FROM workers"):
        ends = counted[worker["worker_id"], "DONE"], counted[worker["worker_id"], "FAILED"]
        assert (worker["items_processed"], worker["items_failed"]) == ends


def check_ready(store: Store) -> None:
    """Every claimable job is known to the claim, at a place that is not worse than its own; its source is in the heap,
    or parked, or behind the first of its queue's reserve."""
    ready = store.database._ready
    parked = {source for sources in ready._parked.values() for source in sources}
    for job in store.rows("SELECT * FROM jobs WHERE state = 'QUEUED' AND NOT claim_class & 4"):
        source = (job["queue"], job["claim_class"], job["concurrency_key"], job["chain_group_id"])
        assert ready._best[source] <= (-job["priority"], job["position"], job["created_at"], job["id"])
        entry = (ready._best[source], source)
        in_reserve = entry in ready._reserves.get(job["queue"], ())
        assert entry in ready._heap or source in parked or in_reserve
    for queue, reserve in ready._reserves.items():
        assert reserve[0] in ready._heap or reserve[0][1] in ready._parked.get(queue, ())
    for source, room in ready._parked_in.items():
        assert source in ready._parked[room]


def check_counted_rooms(store: Store) -> None:
    """The counters of keys, groups and rates are what counting would give."""
    running: Counter[Any] = Counter()
    for job in store.rows("SELECT * FROM jobs WHERE state = 'RUNNING'"):
        running.update(rooms_of(job["queue"], job["concurrency_key"], job["chain_group_id"]))
    for job in store.rows("""
SELECT chain_group_id
FROM jobs
JOIN groups USING (chain_group_id)
WHERE mode = 'sequential' AND state = 'SCHEDULED' AND attempts > 0
"""):
        running[(GROUP, job["chain_group_id"])] += 1
    assert store.database._rooms._running == running
    starts: dict[Any, list[int]] = {}
    for row in store.rows("SELECT * FROM rates WHERE expires_at > ? ORDER BY started_at", store.now):
        starts.setdefault((row["queue"], row["concurrency_key"]), []).extend([row["started_at"]] * row["starts"])
    for rated, counted in starts.items():
        assert list(store.database._counts.rates._starts[rated])[-len(counted) :] == counted


def check_runs(store: Store) -> None:
    """A running job has one running run, its own; nobody else has any."""
    runs = all_runs(store)
    numbers: dict[str, list[int]] = {}
    for run in runs:
        numbers.setdefault(run["job_id"], []).append(run["number"])
    for job in store.rows("SELECT id, run_count FROM jobs"):
        assert numbers.get(job["id"], []) == list(range(1, job["run_count"] + 1))
    running = {job["id"]: job["run_id"] for job in store.rows("SELECT id, run_id FROM jobs WHERE state = 'RUNNING'")}
    assert {run["job_id"]: run["run_id"] for run in runs if run["status"] == RUNNING} == running
    spans: dict[str, list[tuple[int, float]]] = {}
    for run in runs:
        end = float("inf") if run["finished_at"] is None else run["finished_at"]
        spans.setdefault(run["job_id"], []).append((run["started_at"], end))
    for one in spans.values():
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(one)), "runs overlap"


def all_runs(store: Store) -> list[dict[str, Any]]:
    return store.rows(
        "SELECT job_runs.*, id AS job_id FROM job_runs JOIN jobs ON jobs.number = job_number "
        "ORDER BY job_number, job_runs.number"
    )


def check_waiting(store: Store) -> None:
    """`unmet` counts the gates that are not open yet; only gates of jobs that wait are looked up."""
    left = Counter(row["job_id"] for row in store.rows("SELECT job_id FROM job_conditions WHERE met_at IS NULL"))
    looked_up = Counter(row["job_id"] for row in store.rows("SELECT job_id FROM job_conditions WHERE waiting = 1"))
    for job in store.rows("SELECT * FROM jobs"):
        unmet = left[job["id"]]
        assert job["unmet"] == (unmet if job["state"] == SCHEDULED else job["unmet"])
        assert job["state"] in (SCHEDULED, *TERMINAL) or unmet == job["unmet"] == 0
        assert looked_up[job["id"]] == (unmet if job["state"] == SCHEDULED else 0)


def check_turns(store: Store) -> None:
    """Whoever waits for its turn waits for somebody: an earlier job of its schedule that has it."""
    live = store.rows("""
SELECT schedule_id, EXISTS (
  SELECT 1 FROM job_conditions WHERE job_id = id AND key = 'semantica:turn:' || schedule_id AND waiting = 1
) AS awaits_turn
FROM jobs
WHERE finished_at IS NULL
ORDER BY number
""")
    for schedule_id in {job["schedule_id"] for job in live if job["awaits_turn"]}:
        of_it = [job["awaits_turn"] for job in live if job["schedule_id"] == schedule_id]
        assert of_it[0] == 0, "nobody would pass the turn on"


def check_reservation(store: Store) -> None:
    """The one in memory is the ACTIVE one of the table; its job, if it has one, has not ended."""
    columns = ", ".join(Reservation.__struct_fields__)
    rows = store.rows(f"SELECT {columns} FROM direct_reservations WHERE status = 'ACTIVE'")
    active = store.database.context.reservations.active
    assert ([] if active is None else [active]) == [Reservation(**row) for row in rows]
    assert active is None or active.job_id is None or store.job(active.job_id)["state"] in LIVE


def check_counts(store: Store) -> None:
    """The maintained counts are what counting would give, on disk and in memory."""
    rows = store.rows(f"SELECT queue, {', '.join(TOTALS)} FROM queue_counts WHERE removed = 0")
    kept = {row.pop("queue"): row for row in rows}
    counted = recount(store)
    unlisted = "SELECT queue FROM jobs WHERE queue NOT IN (SELECT queue FROM queue_counts)"
    assert store.rows(unlisted) == [], "job.list would not find them"
    nothing = dict.fromkeys(TOTALS, 0)
    counts = store.database._counts
    for queue in kept | counted | counts._queues:
        found = counted.get(queue, Counter())
        totals = {name: found[name] for name in TOTALS}
        assert kept.get(queue, nothing) == totals, queue
        in_memory = counts._queues.get(queue, NOTHING)
        assert {name: in_memory[name] for name in TOTALS} == totals, queue
        live = {state: found[state] for state in LIVE}
        assert {state: in_memory[state] for state in LIVE} == live, queue
    used = store.rows("SELECT queue, sum(slots) AS slots FROM jobs WHERE state = 'RUNNING' GROUP BY queue")
    used_slots = {row["queue"]: row["slots"] for row in used if row["slots"]}
    assert {queue: found[USED_SLOTS] for queue, found in counts._queues.items() if found[USED_SLOTS]} == used_slots
    assert counts.used_slots == sum(used_slots.values())


def recount(store: Store) -> dict[str, Counter[str]]:
    """Without the jobs that their queue had when it was deleted."""
    counted: dict[str, Counter[str]] = {}
    queue_of = {}
    for job in store.rows(COUNTED):
        queue_of[job["id"]] = job["queue"]
        counted.setdefault(job["queue"], Counter())[TOTAL_OF.get(job["state"], job["state"])] += 1
    for job_id, ms in ends_of_runs(store):
        if job_id not in queue_of:
            continue
        counts = counted[queue_of[job_id]]
        difference = ms - counts["recent_run_ms"]
        counts["recent_run_ms"] += round(difference / 5) if counts["timed_runs"] else difference
        counts["timed_runs"] += 1
        counts["run_ms"] += ms
    for job_id, ms in waits(store):
        if job_id not in queue_of:
            continue
        counted[queue_of[job_id]]["runs"] += 1
        counted[queue_of[job_id]]["wait_ms"] += ms
    return counted


def ends_of_runs(store: Store) -> Iterator[tuple[str, int]]:
    """How long each run took, as they ended, without those that the daemon or a crash has ended."""
    by_id = {run["run_id"]: run for run in all_runs(store) if run["finished_at"] is not None}
    for _, about in changes(store):
        run = by_id.get(about.get("run_id")) if about["to"] != RUNNING else None
        if run is None or run["status"] in ("CANCELLED", "SUPERSEDED", "INTERRUPTED"):
            continue
        if not any(code in (run["error"] or "") for code in ("E_ENGINE_CRASH", "E_SHUTDOWN", "E_LEASE_LOST")):
            yield run["job_id"], max(0, run["finished_at"] - run["started_at"])


def waits(store: Store) -> Iterator[tuple[str, int]]:
    """How long each job whose run has ended had been QUEUED: every run follows one arrival in its queue, in order. An
    arrival that was taken back (`withdraw`, `hold`, `postpone`) has no run."""
    queued_at: dict[str, list[int]] = {}
    before: dict[str, str] = {}
    for job_id, about in changes(store):
        if about["to"] == QUEUED:
            queued_at.setdefault(job_id, []).append(about["at"])
        elif about["to"] == SCHEDULED and "run_id" not in about and before.get(job_id) == QUEUED:
            queued_at[job_id].pop()
        before[job_id] = about["to"]
    for run in all_runs(store):
        waited = max(0, run["started_at"] - queued_at[run["job_id"]].pop(0))
        if run["finished_at"] is not None:
            yield run["job_id"], waited


def changes(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each change of a job's state, by the stream: what was told of it, `to` which state, and when."""
    for event in store.events():
        to = STATE_AFTER.get(event["event_type"])
        if to is not None:
            yield event["job_id"], {**msgspec.json.decode(event["payload"]), "to": to, "at": event["timestamp_at"]}
