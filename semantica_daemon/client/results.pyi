from typing import Any, Literal, TypedDict

class Ack(TypedDict):
    job_id: str
    queue: str
    state: str
    generation: int | None
    superseded: list[str]
    existing: bool
    warnings: list[str]

class CancelResult(TypedDict):
    cancelled: list[str]
    cancelling: list[str]
    unchanged: list[str]

class Condition(TypedDict):
    key: str
    value: str
    met_at: int | None

Error = TypedDict(
    "Error",
    {
        "code": str,
        "class": Literal["infra", "permanent", "transient"],
        "message": str,
        "details": Any,
    },
)

class Event(TypedDict):
    sequence: int
    job_sequence: int | None
    job_id: str | None
    timestamp_at: int
    event_type: str
    level: str
    message: str
    payload: Any

class JobEnvironment(TypedDict):
    hash: str
    names: list[str]
    secrets: list[str]
    left_out: list[str]

class Job(TypedDict):
    job_id: str
    id: str
    trace_id: str | None
    trace_flags: str | None
    attach_id: str | None
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
    env_vars: Any
    attempts: int
    max_attempts: int
    run_count: int
    claim_attempts: int
    backoff_factor: float
    backoff_base_ms: int
    backoff: str
    backoff_max_ms: int
    retry_on: RetryOn | None
    deadline: int | None
    ttl_ms: int | None
    expires_at: int | None
    timeout_ms: int | None
    grace_ms: int | None
    on_interrupt: str
    limits: RunLimits | None
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
    parent_count: int
    parents: list[str]
    chain_group_id: str | None
    user_tag: str | None
    payload: Any
    result_summary: Any
    truncated: bool
    log_path: str | None
    artifact_path: str | None
    run_id: str | None
    worker_id: str | None
    slots: int
    concurrency_key: str | None
    position: int
    supersede: str
    gather: bool
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
    retry_of: str | None
    template_id: str | None
    schedule_id: str | None
    workspace_path: str | None
    archived_at: int | None
    held_at: int | None
    environment: JobEnvironment | None
    conditions: list[Condition]
    runs: list[Run]
    retries: list[Retry]

class Progress(TypedDict):
    percent: float | None
    phase: str | None
    items_completed: int | None
    items_total: int | None
    message: str | None

class Retry(TypedDict):
    job_id: str
    retry_of: str | None
    state: str
    created_at: int
    finished_at: int | None

class RetryOn(TypedDict):
    exit_codes: list[int]

class RunLimits(TypedDict):
    memory_bytes: int | None
    cpu_percent: int | None
    nice: int | None

class Run(TypedDict):
    run_id: str
    number: int
    attempt: int
    status: str
    started_at: int
    finished_at: int | None
    exit_code: int | None
    error: Any
    worker_id: str | None
    log_path: str | None
    params_snapshot: Any
