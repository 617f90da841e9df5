"""Rows of receipts and artifacts: written with the end of their job, read by its id. A receipt outlives its job."""

import base64
from typing import Any

from aiosqlite import Connection
from msgspec import Struct

from semantica_daemon.model.receipt import SealedReceipt
from semantica_daemon.store.tx import Tx
from semantica_daemon.wire.receipt import ArtifactStatus, ArtifactType

INSERT_RECEIPT = """
INSERT INTO receipts (number, job_id, created_at, hash, previous, signature, receipt)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
INSERT_ARTIFACT = """
INSERT INTO artifacts (
  job_number, run_id, name, path, artifact_type, status, size_bytes, mtime, sha256, created_at, verified_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_COLUMNS = "number, job_id, created_at, hash, previous, signature, receipt"
NEWEST = "SELECT number, hash FROM receipts ORDER BY number DESC LIMIT 1"
BY_JOB = f"SELECT {_COLUMNS} FROM receipts WHERE job_id >= :id AND job_id < :id || 'g' ORDER BY job_id LIMIT 11"
FROM_NUMBER = f"SELECT {_COLUMNS} FROM receipts WHERE number >= :number ORDER BY number LIMIT :limit"


class ArtifactRow(Struct, frozen=True):
    """A file of a job; `path` is relative to the folder of the job."""

    name: str
    path: str
    artifact_type: ArtifactType
    status: ArtifactStatus = "complete"
    size_bytes: int | None = None
    mtime: int | None = None
    sha256: str | None = None
    run_id: str | None = None
    verified_at: int | None = None


class StoredReceipt(Struct, frozen=True):
    number: int
    job_id: str
    created_at: int
    hash: str
    previous: str | None
    signature: bytes
    document: bytes


def insert_receipt(tx: Tx, sealed: SealedReceipt) -> None:
    receipt = sealed.receipt
    signature = base64.b64encode(sealed.signature).decode()
    values = (receipt.receipt_number, receipt.job_id, tx.now, sealed.hash, receipt.previous, signature)
    tx.execute(INSERT_RECEIPT, (*values, sealed.document.decode()))


def insert_artifacts(tx: Tx, job_number: int, artifacts: list[ArtifactRow]) -> None:
    tx.connection.executemany(
        INSERT_ARTIFACT,
        [
            (
                job_number, row.run_id, row.name, row.path, row.artifact_type, row.status, row.size_bytes, row.mtime,
                row.sha256, tx.now, row.verified_at,
            )
            for row in artifacts
        ],
    )  # fmt: skip


async def newest(db: Connection) -> tuple[int, str | None]:
    """(number, hash) of the newest receipt; (0, None) while there is none."""
    row = await (await db.execute(NEWEST)).fetchone()
    return (0, None) if row is None else (row[0], row[1])


async def by_job(db: Connection, prefix: str) -> list[StoredReceipt]:
    """The receipts of the jobs whose ids begin so."""
    return [_stored(row) for row in await db.execute_fetchall(BY_JOB, {"id": prefix.lower()})]


async def from_number(db: Connection, number: int, limit: int) -> list[StoredReceipt]:
    """The receipts from this number on, in order."""
    found = await db.execute_fetchall(FROM_NUMBER, {"number": number, "limit": limit})
    return [_stored(row) for row in found]


def _stored(row: Any) -> StoredReceipt:
    number, job_id, created_at, digest, previous, signature, document = row
    return StoredReceipt(number, job_id, created_at, digest, previous, base64.b64decode(signature), document.encode())
