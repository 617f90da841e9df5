"""Jobs that wait for the end of other jobs: their parents, and the conditions `job:ID`.

Such a wait is a latched gate with the key `job:` and the id; its value is the state that the other job must end in, for
a parent DONE. A gate for any end has the key of an event without a value. When the other job ends otherwise, the
waiting job can never start, so it is CANCELLED, and then its own descendants are. In a group that continues after
failures, a failed parent of the same group counts like one that is DONE.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from semantica_daemon.errors import InvalidParams, NeverStarts, ParentEnded, Refusal
from semantica_daemon.model import state
from semantica_daemon.model.admission import AdmittedJob, Gate
from semantica_daemon.model.group import FAILURES
from semantica_daemon.model.job import JOB_END
from semantica_daemon.model.planner import Plan
from semantica_daemon.store import find, gates, transition
from semantica_daemon.store.tx import Tx
from semantica_daemon.wire.job import IMMEDIATE, JobSpec

MOST = 50  # jobs that are settled in one transaction; the next pass of the scheduler settles more

WAITING = """
SELECT jobs.number, key, value
FROM job_conditions INDEXED BY idx_job_conditions_arrival
JOIN jobs ON jobs.id = job_id
WHERE waiting = 1 AND key = ?
LIMIT ?
"""
PARENTS = "SELECT parent_id FROM job_parents WHERE job_id = :job_id ORDER BY ordinal"
LINK = "INSERT INTO job_parents (job_id, ordinal, parent_id) VALUES (?, ?, ?)"
PARENT_IN_GROUP = """
SELECT 1
FROM job_parents
JOIN jobs ON jobs.id = parent_id
WHERE job_id = ? AND parent_id = ? AND chain_group_id = ?
"""
IN_GROUP = "SELECT 1 FROM jobs WHERE id = ? AND chain_group_id = ?"
NEWEST_RETRY = """
SELECT jobs.id
FROM job_retries AS mine
JOIN job_retries AS others ON others.first_job_id = mine.first_job_id
JOIN jobs ON jobs.id = others.job_id
WHERE mine.job_id = ?
ORDER BY jobs.number DESC
LIMIT 1
"""

LIVE_ANCESTORS = """
WITH RECURSIVE ancestors (id) AS (
  SELECT ?
  UNION
  SELECT parent_id
  FROM ancestors
  JOIN job_parents ON job_parents.job_id = ancestors.id
  JOIN jobs ON jobs.id = parent_id
  WHERE finished_at IS NULL
)
SELECT id FROM ancestors
"""


def with_gates(tx: Tx, job: AdmittedJob, planned: Plan) -> AdmittedJob:
    """The job with its gates. `planned`: what it does to the other jobs of its lane, in the same transaction."""
    spec, origin = job.spec, job.origin
    has_parents = spec.parents is not None or spec.parent_job_id is not None
    if spec.schedule is IMMEDIATE and not has_parents and not origin.awaits_turn and not spec.hold:
        return job
    found = [_condition(tx, key, value, planned) for key, value in (spec.schedule.conditions or {}).items()]
    if spec.schedule.wait_for_event is not None:
        found.append(gate := _event(tx, spec.schedule.wait_for_event, planned))
        schedule = replace(spec.schedule, wait_for_event=gate.key.removeprefix(gates.ANY_VALUE_OF))
        job = replace(job, spec=replace(spec, schedule=schedule))  # with the whole id of a job
    if origin.awaits_turn:
        found.append(Gate(f"{gates.TURN_OF}{origin.schedule_id}"))
    if spec.hold:
        found.append(Gate(gates.HOLD))
    parents = [_parent(tx, job, name, path, planned) for name, path in _named_parents(spec)]
    found += [Gate(JOB_END + job_id, state.DONE) for job_id, is_live in parents if is_live]
    return replace(job, gates=_by_key(found), parents=tuple(dict.fromkeys(job_id for job_id, _ in parents)))


def _by_key(found: list[Gate]) -> tuple[Gate, ...]:
    """Each gate once. Raises InvalidParams if a job must end in two states."""
    by_key: dict[str, Gate] = {}
    for gate in found:
        if by_key.setdefault(gate.key, gate).value != gate.value:
            problem = f"{gate.key} would have to end as {by_key[gate.key].value} and as {gate.value}"
            raise InvalidParams(problem, "wait for one of them", path="$.schedule.conditions")
    return tuple(by_key.values())


def link(tx: Tx, job_id: str, job: AdmittedJob) -> None:
    """Stores the parents of a new job, and which jobs its gates wait for."""
    if job.parents:
        tx.connection.executemany(LINK, [(job_id, ordinal, parent) for ordinal, parent in enumerate(job.parents)])
    tx.awaited.live.update(other for gate in job.gates if not gate.is_open and (other := gate.awaited_job))


def _named_parents(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """(name, path) of each parent as the caller has given it, the first one first."""
    if spec.parent_job_id is not None:
        yield spec.parent_job_id, "$.parent_job_id"
    for number, name in enumerate(spec.parents or ()):
        yield name, f"$.parents[{number}]"


def _parent(tx: Tx, job: AdmittedJob, name: str, path: str, planned: Plan) -> tuple[str, bool]:
    """(id, whether it is live). A retry follows its parents to their newest retries."""
    job_id, current = _find(tx, name, path)
    if job.origin.retry_of is not None and current in state.TERMINAL:
        newest = tx.execute(NEWEST_RETRY, (job_id,)).fetchone()
        job_id, current = _find(tx, newest[0] if newest else job_id, path)
    if planned.supersede or planned.interrupt:
        _check_ancestors(tx, job_id, path, planned)
    if current in FAILURES and _continues(tx, job.spec.chain_group_id, IN_GROUP, job_id):
        return job_id, False
    if current in state.TERMINAL and current != state.DONE:
        problem = f"job {job_id} ended as {current}, so a job that needs it could never start"
        raise ParentEnded(problem, "retry that job first, and name its retry", job_id=job_id, path=path)
    return job_id, current != state.DONE


def _continues(tx: Tx, group: str | None, query: str, *ids: str) -> bool:
    """Whether the group goes on after failures, and the jobs of the query are members of it."""
    if group is None or not tx.rooms.policy(group).continues:
        return False
    return tx.execute(query, (*ids, group)).fetchone() is not None


def _check_ancestors(tx: Tx, parent: str, path: str, planned: Plan) -> None:
    """Raises NeverStarts if the new job would supersede its parent or a job that this waits for."""
    for (job_id,) in tx.execute(LIVE_ANCESTORS, (parent,)).fetchall():
        if job_id in planned.supersede or job_id in planned.interrupt:
            problem = f"it would supersede job {job_id}, which it needs"
            raise NeverStarts(problem, "give it another subject, or let it supersede none", job_id=job_id, path=path)


def _condition(tx: Tx, key: str, value: str, planned: Plan) -> Gate:
    if not key.startswith(JOB_END):
        return Gate(key, value)
    path = f"$.schedule.conditions.{key}"
    job_id, current = _end_of(tx, key, path, planned)
    if current in state.TERMINAL and current != value:
        problem = f"job {job_id} ended as {current}, so a job that waits for {value} could never start"
        raise NeverStarts(problem, "wait for that state, or for any end of the job", job_id=job_id, path=path)
    return Gate(JOB_END + job_id, value, current == value)


def _event(tx: Tx, key: str, planned: Plan) -> Gate:
    """The gate keeps the key as the caller gave it if that is no job: views find it by that."""
    if not key.startswith(JOB_END):
        return Gate(gates.ANY_VALUE_OF + key)
    job_id, current = _end_of(tx, key, "$.schedule.wait_for_event", planned)
    return Gate(gates.ANY_VALUE_OF + JOB_END + job_id, "", current in state.TERMINAL)


def _end_of(tx: Tx, key: str, path: str, planned: Plan) -> tuple[str, str]:
    """(id, state) of the job that the key names, after this job has superseded others."""
    job_id, current = _find(tx, key.removeprefix(JOB_END), path)
    return job_id, state.SUPERSEDED if job_id in planned.supersede else current


def _find(tx: Tx, name: str, path: str) -> tuple[str, str]:
    """(id, state)"""
    if name.startswith("#"):
        raise InvalidParams("only job.enqueue_many takes references", "give the id of a job", path=path)
    try:
        return find.job(tx, name)[1:]
    except Refusal as refused:
        refused.details["path"] = path
        raise


def settle(tx: Tx, most: int = MOST) -> None:
    """Opens the gates of the jobs that waited for an end which has come, or cancels them; at most `most` of them."""
    ended = tx.awaited.ended
    while ended and most > 0:
        job_id, became = next(iter(ended.items()))
        keys = (JOB_END + job_id, gates.ANY_VALUE_OF + JOB_END + job_id)
        rows = [row for key in keys for row in tx.execute(WAITING, (key, most)).fetchall()][:most]
        for number, key, value in rows:
            _settle_one(tx, number, key, value, became)
        if len(rows) < most:
            del ended[job_id]
        most -= max(1, len(rows))


def _settle_one(tx: Tx, number: int, key: str, value: str, became: str) -> None:
    job = tx.read(number)
    if value in ("", became):
        gates.open_gate(tx, job, key, job.event_count, job.last_event)
        return
    parent = key.removeprefix(JOB_END)
    is_failure = value == state.DONE and became in FAILURES
    if is_failure and _continues(tx, job.chain_group_id, PARENT_IN_GROUP, job.job_id, parent):
        gates.open_gate(tx, job, key, job.event_count, job.last_event)
        return
    message = f"it needs job {parent} to end as {value}, which has ended as {became}"
    facts = {"parent_job_id": parent, "parent_state": became}
    transition.end_waiting(tx, job, state.CANCELLED, message=message, facts=facts)
