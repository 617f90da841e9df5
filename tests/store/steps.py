"""What tests of the store do again and again, each through the verb that the daemon would use."""

from typing import Any

from semantica_daemon.model import state
from semantica_daemon.model.machine import Needs
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.model.selection import Among, selection
from semantica_daemon.store.run_transition import Claim, Running
from semantica_daemon.store.selected import MOST, STATEMENTS, Portion
from semantica_daemon.store.writes.cancel import cancel, cancel_waiting
from semantica_daemon.store.writes.emit import Emit, EmitPart, emit
from semantica_daemon.store.writes.enqueue import enqueue
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.promote import Due, Promote, promote
from semantica_daemon.wire.job import Ack, CancelResult
from semantica_daemon.wire.run import Error
from semantica_daemon.wire.selection import SelectionParams
from tests.builders import Store, admitted

GOOD = Outcome(result='{"n":1}')
BAD = Outcome(error=Error("E_HANDLER", "transient", "it broke", {"line": 3}))
HOPELESS = Outcome(error=Error("E_HANDLER", "permanent", "it never works"))
LATER: dict[str, Any] = {"type": "AFTER", "delay_ms": 5000}
WHEN_IDLE: dict[str, Any] = {"type": "CONDITION", "wait_for_idle": True}
ON_MAINS: dict[str, Any] = {"type": "CONDITION", "require_charging": True}
ON_BOTH: dict[str, Any] = {"type": "CONDITION", "wait_for_idle": True, "require_charging": True}
COMMAND: dict[str, Any] = {"execution_mode": "SUBPROCESS", "payload": {"argv": ["true"]}}


def put(store: Store, job_type: str = "semantica.noop", **spec: Any) -> Ack:
    ack: Ack = store.run(enqueue, admitted(job_type, **spec))
    return ack


def begin(store: Store, **spec: Any) -> Claim:
    """Enqueue, and claim exactly that."""
    ack = put(store, **spec)
    (claimed,) = claims(store)
    assert claimed.run.job_id == ack.job_id
    return claimed


def claims(store: Store) -> list[Claim]:
    found: list[Claim] = store.claim()
    return found


def claimed_ids(store: Store) -> list[str]:
    return [claimed.run.job_id for claimed in claims(store)]


def end(store: Store, claimed: Claim, outcome: Outcome = GOOD) -> str | None:
    became: str | None = store.run(finish, Finish(claimed.run, outcome, None, claimed.job))
    return became


def portion(store: Store, *job_ids: str, among: Among = "live", reason: str = "", **fields: Any) -> Portion:
    """The jobs of a selection, at most as many as are changed in one transaction."""
    chosen = selection(SelectionParams(job_ids=list(job_ids) or None, **fields))
    if not chosen.field:
        return Portion(chosen.job_ids, reason=reason)
    rows = store.connection.execute(STATEMENTS[among][chosen.field], {"value": chosen.value}).fetchall()
    return Portion(numbers=tuple(sorted(row[0] for row in rows))[:MOST], reason=reason)


def stop(store: Store, *job_ids: str, **fields: Any) -> CancelResult:
    lists = store.run(
        cancel_waiting if fields.pop("only_waiting", False) else cancel, portion(store, *job_ids, **fields)
    )
    return CancelResult(*(lists.get(name, []) for name in CancelResult.__struct_fields__))


def tick(store: Store, ms: int = 0, most: int = 200) -> int | None:
    """Time passes, and the due timer looks: the next instant at which something is due."""
    store.now += ms
    return due(store, most).at


def due(store: Store, most: int = 200) -> Due:
    found: Due = store.run(promote, Promote(most))
    return found


def needs(store: Store) -> Needs:
    """Who waits for the machine, as the due timer tells it."""
    return due(store).needs


def emitted(store: Store, key: str, value: str | None = None) -> list[str]:
    """The jobs that the event has matched, part by part."""
    matched: list[str] = []
    said = Emit(key, value)
    while True:
        latched: EmitPart = store.run(emit, said)
        matched += latched.matched
        if not latched.more:
            return matched
        said = Emit(key, value, latched.newest)


def states(store: Store, *job_ids: str) -> list[str]:
    return [store.job(job_id)["state"] for job_id in job_ids]


def runs(store: Store, job_id: str) -> list[dict[str, Any]]:
    sql = """
SELECT job_runs.*, id AS job_id, coalesce(params_snapshot, payload) AS params_snapshot
FROM job_runs
JOIN jobs ON jobs.number = job_number
WHERE id = ?
ORDER BY job_runs.number
"""
    return store.rows(sql, job_id)


def event_types(store: Store, job_id: str) -> list[str]:
    """The job's events by type, in order."""
    return [event["event_type"] for event in store.events() if event["job_id"] == job_id]


def make(store: Store, wanted: str, **spec: Any) -> Running:
    """A job in that state, by the shortest way there, and its run (one nobody knows when it never ran)."""
    if wanted == state.RUNNING:
        return begin(store, **spec).run
    if wanted in (state.DONE, state.FAILED):
        claimed = begin(store, **spec)
        end(store, claimed, GOOD if wanted == state.DONE else HOPELESS)
        return claimed.run
    job_id = _waiting(store, wanted, spec)
    return Running(job_id, "00000000-0000-7000-8000-000000000000", 1, store.now, store.job(job_id)["number"], 1)


def _waiting(store: Store, wanted: str, spec: dict[str, Any]) -> str:
    if wanted == state.QUEUED:
        return put(store, **spec).job_id
    if wanted == state.SUPERSEDED:
        older = put(store, subject_key="made::superseded", **spec)
        newer = put(store, subject_key="made::superseded", **spec)
        stop(store, newer.job_id)
        return older.job_id
    limits = {state.SKIPPED_TTL: ("ttl_ms", 10), state.SKIPPED_DEADLINE: ("deadline", store.now + 10)}
    name, value = limits.get(wanted, ("schedule", LATER))
    given: dict[str, Any] = {**spec, name: value}
    job_id = put(store, **given).job_id
    if wanted == state.CANCELLED:
        stop(store, job_id)
    elif wanted in limits:
        tick(store, 10)
    return job_id
