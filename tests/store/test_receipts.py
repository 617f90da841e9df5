"""Receipts in the database: stored byte for byte, found by their job, in order; and what a receipt says was asked."""

from pathlib import Path
from typing import Any

import aiosqlite
import msgspec
import pytest

from semantica_daemon.model.receipt import canonical, decode, digest, spec_hash, spec_of
from semantica_daemon.signing import is_signed, open_key
from semantica_daemon.store import receipts
from semantica_daemon.store.tx import Tx
from semantica_daemon.wire.job import JobSpec
from tests.builders import NOW, Store
from tests.store.receipt_builder import job_of, sealed
from tests.store.steps import BAD, COMMAND, GOOD, begin, end, put

NOT_ASKED_FOR = {"job_type", "generation", "hold", "durable", "force", "idempotency_ttl_ms", "idempotency_match"}
DEFAULTS: dict[str, Any] = {
    name: value
    for name, value in msgspec.to_builtins(msgspec.structs.asdict(JobSpec(job_type="t"))).items()
    if value is not None and name not in NOT_ASKED_FOR
}
# Each is the same as leaving it out, though its value is another one than the default of the field.
SAME_AS_DEFAULT: dict[str, Any] = {
    "max_attempts": 1, "on_running": "finish", "execution_mode": "SUBPROCESS", "limits": {}, "schedule": {},
    "env_vars": {}, "parents": [],
}  # fmt: skip
DIFFERENT: dict[str, Any] = {
    "max_attempts": 2, "on_running": "cancel", "max_interrupts": 0, "backoff_base_ms": 0, "grace_ms": 0, "slots": 2,
    "limits": {"nice": 5}, "retry_on": {"exit_codes": [75]}, "timeout_ms": 1000, "user_tag": "x", "queue": "small",
    "env_vars": {"A": "1"}, "environment": {"B": "2"}, "schedule": {"type": "AFTER", "delay_ms": 0},
    "payload": {"argv": ["false"]}, "priority": 1, "subject_key": "s", "supersede": "none", "leftovers": "keep",
}  # fmt: skip


async def hash_of(store: Store, **spec: Any) -> str:
    job = await job_of(store.path, put(store, "test", **({"payload": {"argv": ["true"]}} | spec)).job_id)
    return spec_hash(spec_of(job))


async def test_a_default_that_is_written_out_equals_one_that_is_left_out(store: Store) -> None:
    plain = await hash_of(store)
    written = {"payload": {"argv": ["true"]}} | {k: v for k, v in DEFAULTS.items() if k != "payload"}
    assert await hash_of(store, **written) == plain
    for name, value in ({k: v for k, v in DEFAULTS.items() if k != "payload"} | SAME_AS_DEFAULT).items():
        assert (name, await hash_of(store, **{name: value})) == (name, plain)


async def test_whatever_else_is_asked_for_changes_the_hash(store: Store) -> None:
    hashes = {"": await hash_of(store)}
    for name, value in DIFFERENT.items():
        hashes[name] = await hash_of(store, **{name: value})
    assert len(set(hashes.values())) == len(hashes), hashes


async def test_the_order_of_keys_does_not_change_the_hash(store: Store) -> None:
    first = await hash_of(store, payload={"argv": ["true"], "cwd": "/"}, env_vars={"A": "1", "B": "2"})
    second = await hash_of(store, env_vars={"B": "2", "A": "1"}, payload={"cwd": "/", "argv": ["true"]})
    assert first == second


async def test_a_large_payload_is_represented_by_its_hash(store: Store) -> None:
    payload = {"text": "x" * 70_000}
    spec = spec_of(await job_of(store.path, put(store, payload=payload).job_id))
    data = canonical(payload)
    assert (spec["payload_sha256"], spec["payload_size"], "payload" in spec) == (digest(data), len(data), False)


async def test_a_receipt_is_stored_byte_for_byte_and_points_to_the_one_before(store: Store, tmp_path: Path) -> None:
    key, previous, ids = open_key(tmp_path / "keys"), None, []
    for number, outcome in ((1, GOOD), (2, BAD)):
        claimed = begin(store, **COMMAND)
        end(store, claimed, outcome)
        ids.append(claimed.run.job_id)
        made = sealed(await job_of(store.path, ids[-1]), key, number, previous)
        store.run(_insert, made)
        previous = made.hash
    async with aiosqlite.connect(store.path, isolation_level=None) as db:
        assert await receipts.newest(db) == (2, previous)
        (stored,) = await receipts.by_job(db, ids[1][:30])
        found = await receipts.from_number(db, 1, 10)
    assert [(row.number, row.job_id, row.created_at) for row in found] == [(1, ids[0], NOW), (2, ids[1], NOW)]
    assert (stored, stored.document, stored.signature) == (found[1], made.document, made.signature)
    assert (stored.hash, stored.previous) == (digest(stored.document), found[0].hash)
    assert is_signed(key.folder, key.key_id, stored.document, stored.signature) is True
    receipt = decode(stored.document)
    assert (receipt.kind, receipt.state, receipt.runs[0].status) == ("partial", "FAILED", "FAILED")
    assert canonical(receipt) == stored.document


@pytest.mark.parametrize("document", [b"", b"{}", b"[]", b'{"version":2}', b"\xff"])
def test_what_is_no_receipt_is_refused(document: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(document)


def _insert(tx: Tx, sealed: Any) -> None:
    receipts.insert_receipt(tx, sealed)
