"""The machine is no longer idle, or off the mains: what needs it and has not started waits again, and what asked for
that (`stop_when_lost`) is ended."""

from semantica_daemon.store import transition
from semantica_daemon.store.tx import StopRun, Tx

MOST = 50
NEEDY = """
SELECT id
FROM jobs INDEXED BY idx_jobs_needy
WHERE state = 'QUEUED' AND (wait_for_idle = 1 OR require_charging = 1)
  AND wait_for_idle = :idle AND require_charging = :charging
LIMIT :most
"""
RUNNING = """
SELECT run_id, wait_for_idle, require_charging
FROM jobs INDEXED BY idx_jobs_running
WHERE state = 'RUNNING' AND stop_when_lost = 1
"""


def lost(tx: Tx, request: None) -> bool:
    """By what the machine is now; whether there may be more of them."""
    withdrawn = 0
    for idle, charging in ((0, 1), (1, 0), (1, 1)):
        if not tx.facts.meet(idle, charging):
            values = {"idle": idle, "charging": charging, "most": MOST}
            for (job_id,) in tx.execute(NEEDY, values).fetchall():
                withdrawn += transition.withdraw(tx, job_id)
    for run_id, idle, charging in tx.execute(RUNNING).fetchall():
        if not tx.facts.meet(idle, charging):
            tx.stops.append(StopRun(run_id, "lost"))
    return withdrawn >= MOST
