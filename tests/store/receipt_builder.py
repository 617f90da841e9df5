"""Receipts for tests, made from jobs that have ended as the daemon makes them."""

import sqlite3
from pathlib import Path
from typing import Any

import aiosqlite

from semantica_daemon.model.receipt import SealedReceipt, canonical, recorded_run, spec_hash, spec_of
from semantica_daemon.signing import SigningKey
from semantica_daemon.store import reads
from semantica_daemon.wire.job_view import JobWithRuns
from semantica_daemon.wire.receipt import Receipt, RecordedOutput, Signature, Sources, Timestamps


async def job_of(path: Path, job_id: str) -> JobWithRuns:
    async with aiosqlite.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None) as db:
        return await reads.job(db, job_id)


def newest_of(connection: sqlite3.Connection) -> tuple[int, str | None]:
    row = connection.execute("SELECT number, hash FROM receipts ORDER BY number DESC LIMIT 1").fetchone()
    return (0, None) if row is None else (row[0], row[1])


def sealed(
    job: JobWithRuns, key: SigningKey, number: int, previous: str | None, outputs: list[RecordedOutput] | None = None
) -> SealedReceipt:
    spec: dict[str, Any] = spec_of(job)
    receipt = Receipt(
        receipt_number=number,
        previous=previous,
        kind="complete" if job.state == "DONE" else "partial",
        job_id=job.job_id,
        job_type=job.job_type,
        queue=job.queue,
        subject_key=job.subject_key,
        generation=job.generation,
        state=job.state,
        exit_code=job.exit_code,
        error=None,
        timestamps=Timestamps(job.created_at, job.queued_at, job.started_at, job.finished_at or 0),
        spec=spec,
        spec_hash=spec_hash(spec),
        sources=Sources(),
        runs=[recorded_run(run) for run in job.runs],
        event_count=3,
        outputs=outputs or [],
        signature=Signature(key.key_id),
    )
    document = canonical(receipt)
    return SealedReceipt(receipt, document, key.sign(document))
