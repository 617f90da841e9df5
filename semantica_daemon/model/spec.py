"""The fields of a job's spec that are no columns of its row: one immutable JSON document, read when the job starts,
ends or is shown."""

from typing import Literal

import msgspec
from msgspec import Struct

from semantica_daemon.wire.run import RetryOn, RunLimits


class RestOfSpec(Struct, frozen=True, omit_defaults=True, gc=False):
    """The names and defaults are those of JobSpec; on_running is the one in force when the job was enqueued."""

    backoff_base_ms: int = 1000
    backoff: Literal["exponential", "linear"] = "exponential"
    backoff_max_ms: int = 3_600_000
    retry_on: RetryOn | None = None
    timeout_ms: int | None = None
    grace_ms: int | None = None
    on_interrupt: Literal["fail", "requeue"] = "fail"
    leftovers: Literal["end", "keep"] = "end"
    stop_when_lost: bool = False
    on_running: Literal["finish", "cancel"] = "finish"
    max_interrupts: int = 3
    debounce_ms: int | None = None
    max_wait_ms: int | None = None
    template_id: str | None = None
    idempotency_key: str | None = None
    spec_hash: str | None = None
    trace_flags: str | None = None
    attach_id: str | None = None
    limits: RunLimits | None = None
    parent_count: int = 0
    gather: bool = False


ALL_DEFAULTS = RestOfSpec()
_decode = msgspec.json.Decoder(RestOfSpec).decode


def rest_of(text: str | None) -> RestOfSpec:
    """Decodes the column `spec`, which is NULL when every field has its default."""
    return ALL_DEFAULTS if text is None else _decode(text)


def stored(rest: RestOfSpec) -> str | None:
    return None if rest == ALL_DEFAULTS else msgspec.json.encode(rest).decode()
