"""Prepares a folder for the store's figures: a migrated database, and a job of each queue as admission leaves it.
A process of its own, so that the programs under valgrind import the store and nothing else."""

import pickle
import sys
from pathlib import Path

from benchmarks.instructions.store import DATABASE, JOBS, NOW, RULES
from semantica_daemon.engine import handlers
from semantica_daemon.model.admission import Admission
from semantica_daemon.store.database import connect
from semantica_daemon.store.migrate import migrate
from semantica_daemon.wire.job import JobSpec


def prepare(folder: Path, now: int = NOW) -> Admission:
    """What admitted the jobs, for others."""
    connection = connect(folder / DATABASE)
    migrate(connection, now)
    connection.close()
    admission = Admission(handlers.load({}, []).payload_decoders(), {"PATH": "/usr/bin:/bin"}, 2_097_152)
    specs = {queue: JobSpec(job_type="semantica.noop", queue=queue) for queue in RULES}
    (folder / JOBS).write_bytes(pickle.dumps({queue: admission.admit(spec) for queue, spec in specs.items()}))
    return admission


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
