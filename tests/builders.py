"""Stores and specs for tests, made the way the daemon makes them."""

import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from semantica_daemon.engine import handlers
from semantica_daemon.model.admission import Admission, AdmittedJob
from semantica_daemon.model.machine import CurrentFacts, Facts
from semantica_daemon.model.queue import QueueRules, limits
from semantica_daemon.model.spec import rest_of
from semantica_daemon.store.database import Command, CommitResult, Database, FailedAfterWrite, Verb, connect
from semantica_daemon.store.migrate import migrate
from semantica_daemon.store.writes.claim import claim
from semantica_daemon.wire.job import JobSpec
from semantica_daemon.wire.run import Progress
from tests.homes import copy_migrated_database

NOW = 1_800_000_000_000
ADMISSION = Admission(handlers.load({}, []).payload_decoders(), {"PATH": "/usr/bin:/bin"}, 2_097_152)


def admitted(job_type: str = "semantica.noop", **spec: Any) -> AdmittedJob:
    return ADMISSION.admit(msgspec.convert({"job_type": job_type, **spec}, JobSpec))


class Store:
    """A migrated database and a clock one can set; `run` is one verb in one transaction."""

    def __init__(self, path: Path, slots: int = 2, queues: dict[str, QueueRules] | None = None, seed: int = 0) -> None:
        self.path = path
        if not path.exists():
            copy_migrated_database(path)
        self.connection = connect(path)
        migrate(self.connection, NOW)
        self.limits = limits(slots, queues or {})
        self.current = CurrentFacts()
        self.database = Database(self.connection, self.limits, Random(seed), ADMISSION, self.current)
        self.now = NOW
        self.committed: CommitResult | None = None

    def run(self, verb: Verb, request: Any, claiming: bool = False) -> Any:
        """The verb's result, or its exception raised; `committed` tells the rest."""
        try:
            self.committed = self.database.transact([Command(verb, request)], self.now, claim if claiming else None)
        except FailedAfterWrite as failed:
            raise failed.error from failed
        (result,) = self.committed.results
        if isinstance(result, Exception):
            raise result
        return result

    def claim(self) -> Any:
        """One empty transaction that claims; the claims."""
        self.committed = self.database.transact([], self.now, claim)
        return self.committed.claims

    def machine(self, idle: bool = False, charging: bool = False) -> None:
        """What is known of the machine from now on."""
        self.current.facts = Facts(idle, charging)

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(sql, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def job(self, job_id: str) -> dict[str, Any]:
        """Its row, with what its JSON columns hold beside it."""
        (row,) = self.rows("SELECT * FROM jobs WHERE id = ?", job_id)
        error = msgspec.json.decode(row["error"]) if row["error"] else {}
        progress = msgspec.json.decode(row["progress"]) if row["progress"] else {}
        row |= msgspec.structs.asdict(rest_of(row["spec"]))
        row |= {f"error_{name}": error.get(name) for name in ("code", "class", "message", "details")}
        row |= {f"progress_{name}": progress.get(name) for name in Progress.__struct_fields__}
        met = self.rows("SELECT met_at FROM job_conditions WHERE job_id = ? AND key LIKE 'semantica:event:%'", job_id)
        return row | {"event_met_at": met[0]["met_at"] if met else None}

    def events(self) -> list[dict[str, Any]]:
        return self.rows(
            "SELECT job_events.*, id AS job_id FROM job_events LEFT JOIN jobs ON number = job_number ORDER BY sequence"
        )

    def close(self) -> None:
        self.connection.close()


def plan_of(connection: sqlite3.Connection, sql: str, values: Any) -> str:
    """EXPLAIN QUERY PLAN as one text."""
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    return "\n".join(row[3] for row in rows)
