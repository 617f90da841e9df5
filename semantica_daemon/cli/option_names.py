"""Which option sets which field of a JobSpec, a template or a schedule. `job_options` builds a spec by it,
and `errors` finds the option that set a refused field."""

# Options whose value becomes the field as it is.
FIELDS = {
    "queue": "queue", "subject": "subject_key", "generation": "generation", "supersede": "supersede",
    "on_running": "on_running", "tag": "user_tag", "group": "chain_group_id", "priority": "priority",
    "attempts": "max_attempts", "backoff": "backoff_base_ms", "timeout": "timeout_ms", "grace": "grace_ms",
    "ttl": "ttl_ms", "deadline": "deadline", "on_interrupt": "on_interrupt", "leftovers": "leftovers",
    "key": "idempotency_key",
}  # fmt: skip
START_FIELDS = {
    "at": "schedule.scheduled_at", "after": "schedule.delay_ms", "when_idle": "schedule.wait_for_idle",
    "on_power": "schedule.require_charging", "on_event": "schedule.wait_for_event",
    "stop_when_lost": "stop_when_lost", "debounce": "debounce_ms", "max_wait": "max_wait_ms",
}  # fmt: skip
OTHER_NAMES = {
    "cron_expression": "the cron expression", "timezone": "--zone", "name": "the name", "template_id": "the template",
    "schedule.conditions": "--on-event", "param_overrides": "the parameters", "env_vars": "--env",
    "job_type": "--type", "slots": "--slots", "max_queued": "--max-queued",
}  # fmt: skip


def field_of(path: str) -> str:
    """The field at this JSON path: `ttl_ms` for `$.spec.ttl_ms`."""
    return path.removeprefix("$.").removeprefix("spec.").partition("[")[0]


def option_of(field: str) -> str | None:
    """The option that sets this field."""
    if field in OTHER_NAMES:
        return OTHER_NAMES[field]
    options = {place: option for option, place in (FIELDS | START_FIELDS).items()}
    return f"--{options[field].replace('_', '-')}" if field in options else None
