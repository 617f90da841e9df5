"""Receipts as bytes: the canonical form, its hash, and the spec of a job as its receipt has it.

The canonical form is JSON with sorted keys, no spaces, in UTF-8. `receipt.json` is exactly these bytes, without the
signature, so that openssl can check it against `receipt.sig`, the 64 raw bytes of the signature.
"""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon.wire.job import JobSpec
from semantica_daemon.wire.job_view import JobView, JobWithRuns
from semantica_daemon.wire.receipt import Receipt, RecordedError, RecordedRun
from semantica_daemon.wire.run import RunView

RECEIPT_FILE, SIGNATURE_FILE = "receipt.json", "receipt.sig"
LARGEST_PAYLOAD = 65_536  # a larger one is represented by its hash and size
# Fields of a spec that a stored job has under the same name. Not among them: the generation and the instant of a
# schedule, which change or are chosen by the daemon.
SPEC_FIELDS = (
    "job_type", "queue", "subject_key", "supersede", "gather", "on_running", "max_interrupts", "debounce_ms",
    "max_wait_ms", "priority", "execution_mode", "stop_when_lost", "max_attempts", "backoff_factor", "backoff_base_ms",
    "backoff", "backoff_max_ms", "retry_on", "timeout_ms", "deadline", "ttl_ms", "grace_ms", "on_interrupt",
    "leftovers", "limits", "parents", "chain_group_id", "concurrency_key", "slots", "user_tag", "template_id",
    "workspace", "inputs",
)  # fmt: skip
SCHEDULE_FIELDS = ("wait_for_idle", "require_charging", "wait_for_event")
_defaults = msgspec.structs.asdict(JobSpec(job_type=""))
DEFAULTS: dict[str, Any] = _defaults | {"job_type": None, "on_running": "finish", "max_attempts": 1}
_decode = msgspec.json.Decoder(Receipt).decode


class SealedReceipt(Struct, frozen=True):
    """A receipt that is signed: `document` is the text of receipt.json, `signature` the 64 bytes of receipt.sig."""

    receipt: Receipt
    document: bytes
    signature: bytes

    @property
    def hash(self) -> str:
        return digest(self.document)


def canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def decode(document: bytes | str) -> Receipt:
    """Raises msgspec.ValidationError or DecodeError when the document is no receipt of this version."""
    return _decode(document)


def spec_hash(spec: dict[str, Any]) -> str:
    """Of a spec as `spec_of` returns it. Anybody can compute it again from the receipt."""
    return digest(canonical(spec))


def spec_of(job: JobView) -> dict[str, Any]:
    """What was asked for. Values that equal the default are left out, so that it does not matter whether a caller has
    written them out. Variables are those of the row, whose secrets are redacted; of the environment only the hash."""
    defaults = DEFAULTS | {"workspace": job.execution_mode == "SUBPROCESS"}
    given = {name: getattr(job, name, None) for name in SPEC_FIELDS}
    given |= {"max_attempts": max(1, job.max_attempts), "slots": max(1, job.slots)}  # 0 means 1; see wire/job_view
    spec = {name: value for name, value in given.items() if value != defaults[name] and not _is_empty(value)}
    spec |= _payload(job) | _schedule(job)
    if variables := msgspec.json.decode(job.env_vars):
        spec["env_vars"] = variables
    if isinstance(job, JobWithRuns) and job.environment is not None:
        spec["environment_hash"] = job.environment.hash
    builtins: dict[str, Any] = msgspec.to_builtins(spec)
    return builtins


def recorded_run(run: RunView) -> RecordedRun:
    error = None if run.error is None else msgspec.convert(run.error, RecordedError)
    return RecordedRun(run.run_id, run.attempt, run.status, run.started_at, run.finished_at, run.exit_code, error)


def _is_empty(value: Any) -> bool:
    """Whether the value asks for nothing, as an object without fields does."""
    return value is None or (isinstance(value, Struct | list | dict) and not msgspec.to_builtins(value))


def _payload(job: JobView) -> dict[str, Any]:
    payload = msgspec.json.decode(job.payload)
    if len(job.payload) <= LARGEST_PAYLOAD:
        return {"payload": payload} if payload else {}
    data = canonical(payload)
    return {"payload_sha256": digest(data), "payload_size": len(data)}


def _schedule(job: JobView) -> dict[str, Any]:
    """The kind of the schedule and its conditions, without those of parents."""
    found = {name: value for name in SCHEDULE_FIELDS if (value := getattr(job, name))}
    if job.schedule_type not in (None, "IMMEDIATE"):
        found["type"] = job.schedule_type
    if job.schedule_delay_ms is not None:
        found["delay_ms"] = job.schedule_delay_ms
    if isinstance(job, JobWithRuns) and job.conditions:
        found["conditions"] = {condition.key: condition.value for condition in job.conditions}
    return {"schedule": found} if found else {}
