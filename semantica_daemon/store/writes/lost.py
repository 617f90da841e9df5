"""Handles the end of idle or mains power: QUEUED jobs that need it become SCHEDULED again, and running jobs with
`stop_when_lost` are stopped."""

from semantica_daemon.store import transition
from semantica_daemon.store.tx import StopRun, Tx

MOST = 50
QUEUED_NEEDING_MACHINE = """
SELECT number
FROM jobs INDEXED BY idx_jobs_queued_for_machine
WHERE state = 'QUEUED' AND (wait_for_idle = 1 OR require_charging = 1)
  AND wait_for_idle = :idle AND require_charging = :charging
LIMIT :most
"""
RUNNING_UNTIL_LOST = """
SELECT run_id, wait_for_idle, require_charging
FROM jobs INDEXED BY idx_jobs_running
WHERE state = 'RUNNING' AND json_extract(spec, '$.stop_when_lost') = 1
"""


def lost(tx: Tx, request: None) -> bool:
    """Uses the facts about the machine at the start of the transaction. Returns whether there may be more jobs to
    withdraw."""
    withdrawn = 0
    for idle, charging in ((0, 1), (1, 0), (1, 1)):
        if not tx.facts.meet(idle, charging):
            values = {"idle": idle, "charging": charging, "most": MOST}
            for (number,) in tx.execute(QUEUED_NEEDING_MACHINE, values).fetchall():
                transition.withdraw(tx, tx.read(number))
                withdrawn += 1
    for run_id, idle, charging in tx.execute(RUNNING_UNTIL_LOST).fetchall():
        if not tx.facts.meet(idle, charging):
            tx.stops.append(StopRun(run_id, "lost"))
    return withdrawn >= MOST
