"""Prepares a folder for the store's figures: a migrated database, and one job as admission hands it to the store.
A process of its own, so that the programs under valgrind import the store and nothing else."""

import pickle
import sys
from pathlib import Path

import msgspec

from benchmarks.instructions.store import DATABASE, JOB, NOW
from semantica_daemon.engine import handlers
from semantica_daemon.model.admission import Admission
from semantica_daemon.store.database import connect
from semantica_daemon.store.migrate import migrate
from semantica_daemon.wire.job import JobSpec


def main(folder: Path) -> None:
    connection = connect(folder / DATABASE)
    migrate(connection, NOW)
    connection.close()
    admission = Admission(handlers.load({}, []).payload_decoders(), {"PATH": "/usr/bin:/bin"}, 2_097_152)
    job = admission.admit(msgspec.convert({"job_type": "semantica.noop"}, JobSpec))
    (folder / JOB).write_bytes(pickle.dumps(job))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
