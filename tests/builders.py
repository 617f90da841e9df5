"""Stores and specs for tests, made the way the daemon makes them."""

import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from semantica_daemon.engine import handlers
from semantica_daemon.model.admission import Admission, Admitted
from semantica_daemon.model.machine import CurrentFacts, Facts
from semantica_daemon.model.queue import QueueRules, limits
from semantica_daemon.store.database import Command, Committed, Database, Verb, connect
from semantica_daemon.store.migrate import migrate
from semantica_daemon.wire.job import JobSpec
from tests.homes import copy_migrated_database

NOW = 1_800_000_000_000
ADMISSION = Admission(handlers.load({}, []).payload_decoders(), {"PATH": "/usr/bin:/bin"}, 2_097_152)


def admitted(job_type: str = "semantica.noop", **spec: Any) -> Admitted:
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
        self.committed: Committed | None = None

    def run(self, verb: Verb, request: Any, claiming: bool = False) -> Any:
        """The verb's result, or its exception raised; `committed` tells the rest."""
        self.committed = self.database.transact([Command(verb, request)], self.now, claiming)
        (result,) = self.committed.results
        if isinstance(result, Exception):
            raise result
        return result

    def claim(self) -> Any:
        """One empty transaction that claims; the claims."""
        self.committed = self.database.transact([], self.now, True)
        return self.committed.claims

    def machine(self, idle: bool = False, charging: bool = False) -> None:
        """What is known of the machine from now on."""
        self.current.facts = Facts(idle, charging)

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(sql, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def job(self, job_id: str) -> dict[str, Any]:
        (row,) = self.rows("SELECT * FROM jobs WHERE id = ?", job_id)
        return row

    def events(self) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM job_events ORDER BY sequence")

    def close(self) -> None:
        self.connection.close()


def plan_of(connection: sqlite3.Connection, sql: str, values: dict[str, Any]) -> str:
    """EXPLAIN QUERY PLAN as one text."""
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    return "\n".join(row[3] for row in rows)
