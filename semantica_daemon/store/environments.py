"""The environments that callers handed over with their jobs: each content is one row of `environments`, to which jobs
refer by number. `writes/environments` has what happens to them at start."""

from msgspec.structs import astuple

from semantica_daemon.model.caller_environment import StoredEnvironment
from semantica_daemon.store.tx import Tx

FIND = "SELECT environment_id FROM environments WHERE hash = ? AND left_out = ?"
INSERT = "INSERT INTO environments (hash, variables, secrets, left_out) VALUES (?, ?, ?, ?)"
READ = "SELECT hash, variables, secrets, left_out FROM environments WHERE environment_id = ?"
VARIABLES = "SELECT variables FROM environments WHERE environment_id = ?"


def keep(tx: Tx, environment: StoredEnvironment) -> int:
    """The number of this content; stores it if it is new."""
    known = tx.execute(FIND, (environment.hash, environment.left_out)).fetchone()
    if known is not None:
        return int(known[0])
    return tx.execute(INSERT, astuple(environment)).lastrowid or 0


def read(tx: Tx, environment_id: int) -> StoredEnvironment:
    return StoredEnvironment(*tx.execute(READ, (environment_id,)).fetchone())


def variables(tx: Tx, environment_id: int) -> str:
    """Its variables without the secrets, as JSON."""
    return str(tx.execute(VARIABLES, (environment_id,)).fetchone()[0])
