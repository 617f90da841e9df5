"""How a stored job, run and queue are shown to a caller; the columns of `jobs` by their own names."""

from typing import Any

from msgspec import Raw, Struct

from semantica_daemon.model.outcome import Error

NULL = Raw(b"null")


class Progress(Struct, frozen=True):
    percent: float | None
    phase: str | None
    items_completed: int | None
    items_total: int | None
    message: str | None


class Condition(Struct, frozen=True):
    key: str
    value: str
    met_at: int | None


class JobView(Struct, frozen=True, kw_only=True):
    job_id: str
    id: str
    trace_id: str | None
    queue: str
    job_type: str
    subject_key: str | None
    generation: int | None
    priority: int
    state: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    queued_at: int | None
    updated_at: int | None
    execution_mode: str
    pid: int | None
    env_vars: Raw
    attempts: int
    max_attempts: int
    run_count: int
    claim_attempts: int
    backoff_factor: float
    backoff_base_ms: int
    deadline: int | None
    ttl_ms: int | None
    expires_at: int | None
    timeout_ms: int | None
    grace_ms: int | None
    on_interrupt: str
    leftovers: str
    schedule_type: str | None
    scheduled_at: int | None
    schedule_delay_ms: int | None
    wait_for_idle: bool
    require_charging: bool
    wait_for_event: str | None
    event_met_at: int | None
    stop_when_lost: bool
    debounce_ms: int | None
    max_wait_ms: int | None
    parent_job_id: str | None
    chain_group_id: str | None
    user_tag: str | None
    payload: Raw
    result_summary: Raw
    truncated: bool = False
    log_path: str | None
    artifact_path: str | None
    run_id: str | None
    position: int
    supersede: str
    on_running: str
    max_interrupts: int
    superseded_by: str | None
    stale: bool
    cancel_requested_at: int | None
    progress: Progress | None
    error: Error | None
    exit_code: int | None
    idempotency_key: str | None
    spec_hash: str | None
    retry_of: str | None = None
    template_id: str | None
    schedule_id: str | None
    workspace_path: str | None = None
    archived_at: int | None = None
    held_at: int | None = None


class RunView(Struct, frozen=True):
    """Of a job the newest hundred; a snapshot over 4 KiB is left out."""

    run_id: str
    attempt: int
    status: str
    started_at: int
    finished_at: int | None
    exit_code: int | None
    error: Any
    worker_id: str | None
    log_path: str | None
    params_snapshot: Any


class JobWithRuns(JobView, frozen=True, kw_only=True):
    conditions: list[Condition]
    runs: list[RunView]


class QueueView(Struct, frozen=True):
    queue: str
    queued: int
    scheduled: int
    running: int
    slots: int
    paused: bool
    resume_at: int | None
    max_queued: int
    on_running: str


class QueueStats(Struct, frozen=True):
    queue: str
    queued: int
    scheduled: int
    running: int
    done: int
    failed: int
    cancelled: int
    superseded: int
    skipped: int
    avg_wait_ms: float | None
    avg_run_ms: float | None
