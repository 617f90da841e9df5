"""group.create, and what follows from the failure of a member: with `on_failure: "stop"` the members that have not
started are CANCELLED, in bounded passes."""

from semantica_daemon.errors import GroupExists, InvalidParams
from semantica_daemon.model import state
from semantica_daemon.store import transition
from semantica_daemon.store.rooms import GROUP
from semantica_daemon.store.tx import Tx
from semantica_daemon.wire.group import CreateGroupParams, GroupAck

MOST = 50  # members that are cancelled in one transaction; the next pass of the scheduler cancels more

CREATE = """
INSERT INTO groups (chain_group_id, mode, on_failure, max_parallel, created_at)
VALUES (?, ?, ?, ?, ?)
"""
POLICY = "SELECT mode, on_failure, max_parallel FROM groups WHERE chain_group_id = ?"
STOPPED = "SELECT stopped_upto, stopped_by FROM groups WHERE chain_group_id = ?"
NOT_STARTED = """
SELECT number
FROM jobs INDEXED BY idx_jobs_group_live
WHERE finished_at IS NULL AND chain_group_id IS NOT NULL AND chain_group_id = ? AND number <= ? AND run_count = 0
  AND state <> 'RUNNING'
LIMIT ?
"""
ALL_STOPPED = "UPDATE groups SET stopped_upto = NULL WHERE chain_group_id = ?"


def create(tx: Tx, params: CreateGroupParams) -> GroupAck:
    if params.mode == "sequential" and (params.max_parallel or 1) > 1:
        hint = "leave it out, or create a parallel group"
        raise InvalidParams("a sequential group runs one job at a time", hint, path="$.max_parallel")
    name = params.chain_group_id or tx.ids.job()
    policy = (params.mode, params.on_failure, params.max_parallel)
    known = tx.execute(POLICY, (name,)).fetchone()
    if known is not None and known != policy:
        problem = f"group {name} exists with another policy"
        raise GroupExists(problem, "choose another label; a policy cannot change", chain_group_id=name)
    if known is None:
        tx.execute(CREATE, (name, *policy, tx.now))
        tx.rooms.load()
        tx.room_freed((GROUP, name))
        tx.announce("group.created", f"group {name} created", {"chain_group_id": name, "mode": params.mode})
    return GroupAck(name, known is None)


def stop_members(tx: Tx, most: int = MOST) -> None:
    """Cancels members of groups that were stopped; at most `most` of them."""
    while tx.rooms.stopping and most > 0:
        group = next(iter(tx.rooms.stopping))
        upto, by = tx.execute(STOPPED, (group,)).fetchone()
        rows = tx.execute(NOT_STARTED, (group, upto, most)).fetchall()
        facts = {"chain_group_id": group, "failed_job_id": by}
        for (number,) in rows:
            message = f"job {by} of its group failed"
            transition.end_waiting(tx, tx.read(number), state.CANCELLED, message=message, facts=facts)
        if len(rows) < most:
            tx.execute(ALL_STOPPED, (group,))
            tx.rooms.stopping.discard(group)
            tx.room_freed((GROUP, group))
        most -= len(rows)
