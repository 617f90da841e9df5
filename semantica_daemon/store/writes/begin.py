"""The process of a SUBPROCESS run exists: its identity is written as soon as that, and only now is the job started."""

from msgspec import Struct

from semantica_daemon.model import event
from semantica_daemon.store.transition import TOUCHED, Running
from semantica_daemon.store.tx import Touched, Tx

BEGIN_RUN = """
UPDATE job_runs
SET pid = :pid, pid_started_at = :pid_started_at, boot_id = :boot_id, log_path = :log_path
WHERE run_id = :run_id AND status = 'RUNNING'
"""
BEGIN = f"""
UPDATE jobs
SET pid = :pid, log_path = :log_path, updated_at = :now, event_count = event_count + 1
WHERE id = :job_id AND state = 'RUNNING' AND run_id = :run_id
{TOUCHED}
"""


class Begun(Struct, frozen=True):
    """`pid_started_at` is counted from the boot that `boot_id` names."""

    run: Running
    pid: int
    pid_started_at: int
    boot_id: str
    log_path: str


def begin(tx: Tx, begun: Begun) -> None:
    run = begun.run
    values = {"pid": begun.pid, "log_path": begun.log_path, "run_id": run.run_id}
    for row in tx.execute(BEGIN, {**values, "job_id": run.job_id, "now": tx.now}).fetchall():
        tx.execute(BEGIN_RUN, {**values, "pid_started_at": begun.pid_started_at, "boot_id": begun.boot_id})
        facts = {"run_id": run.run_id, "attempt": run.attempt, "pid": begun.pid}
        tx.emit(Touched(*row), event.STARTED, "", facts)
