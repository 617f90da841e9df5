"""What the store's machine may choose from: few values of each kind, so that jobs, events and schedules meet."""

from typing import Any

from hypothesis import strategies as st

from semantica_daemon.model.outcome import CRASHED, SHUT_DOWN, Outcome
from semantica_daemon.wire.run import Error
from tests.stateful.timetable import PERIODS
from tests.store.steps import BAD, GOOD, HOPELESS

IDLE, POWER = {"wait_for_idle": True}, {"require_charging": True}
WAITS: list[dict[str, Any]] = [
    IDLE, IDLE, POWER, POWER, IDLE | POWER, {"wait_for_event": "e"}, {"wait_for_event": "c"},
    {"conditions": {"c": "1"}},
    {"conditions": {"c": "1", "d": "2"}}, {"wait_for_event": "c", "conditions": {"c": "1"}}, {"conditions": {}},
    IDLE | {"wait_for_event": "e"}, POWER | {"conditions": {"d": "2"}}, IDLE | POWER | {"wait_for_event": "c"},
]  # fmt: skip

# Instants are relative to now, generations to the newest of the lane.
SPEC: dict[str, list[Any]] = {
    "job_type": ["semantica.noop", "semantica.noop", "semantica.echo"],
    "execution_mode": [None, None, "SUBPROCESS"],
    "queue": ["default", "default", "one", "small"],
    "subject_key": ["a", "a", "a", "b", None],
    "generation": [None, None, 1, 1, 2, 0, -1, -2],
    "supersede": ["lane", "lane", "lane", "subject", "none"],
    "on_running": ["finish", "cancel"],
    "max_interrupts": [0, 1, 2],
    "priority": [0, -1, 1],
    "time": [None] * 8 + [("AFTER", 0), ("AFTER", 50), ("AFTER", 4000), ("AT", 200), ("AT", -5), ("AT", 3_600_000)],
    "waits": [{}] * 8 + WAITS,
    "stop_when_lost": [False, True],
    "debounce": [None] * 4 + [(20, None), (20, 60), (0, 0)],
    "ttl_ms": [None] * 7 + [0, 40],
    "deadline": [None] * 9 + [0, 30],
    "max_attempts": [0, 1, 2, 3],
    "backoff_base_ms": [0, 100],
    "on_interrupt": ["fail", "requeue"],
    "idempotency_key": [None, None, None, None, "k", "l"],
}
UNSTARTED = Outcome(error=Error("E_SPAWN", "infra", "no process to be had"), unstarted=True)
OUTCOMES = [GOOD, GOOD, BAD, BAD, HOPELESS, CRASHED, SHUT_DOWN, UNSTARTED]
STEPS_MS = [1, 10, 50, 200, 500, 2000, 5000, 61_000, 86_400_000]
PAUSABLE = ["default", "one", None]
EVENTS = [("e", None), ("e", "1"), ("c", "1"), ("c", "2"), ("c", None), ("d", "2"), ("x", "1")]
FACTS = [(True, True), (True, True), (True, True), (True, False), (False, True), (False, False)]
SETS_MS = [1000, -1000, 3_600_000, -3_600_000, 86_400_000, -7 * 86_400_000]
NAMES = ["s", "t"]
SCHEDULE: dict[str, list[Any]] = {
    "name": NAMES,
    "template_id": NAMES,
    "cron_expression": list(PERIODS),
    "enabled": [True, True, True, False],
    "misfire": ["run_once", "skip", "run_all"],
    "overlap": ["queue", "queue", "skip", "supersede"],
    "param_overrides": [None, {"cwd": "/"}],
}

specs = st.fixed_dictionaries({field: st.sampled_from(values) for field, values in SPEC.items()})
schedules = st.fixed_dictionaries({field: st.sampled_from(values) for field, values in SCHEDULE.items()})
outcomes = st.sampled_from(OUTCOMES)
names = st.sampled_from(NAMES)
picks = st.integers(0, 10**6)


def spec_of(drawn: dict[str, Any], now: int) -> dict[str, Any]:
    """A spec that is sound, with instants as they are now."""
    spec = {**drawn, "payload": {"argv": ["true"]}, "schedule": dict(drawn["waits"])}
    del spec["waits"]
    needy = {"wait_for_idle", "require_charging"} & spec["schedule"].keys()
    kind, ms = spec.pop("time") or ("CONDITION" if any(spec["schedule"].values()) else "IMMEDIATE", 0)
    spec["schedule"] |= {"AFTER": {"delay_ms": ms}, "AT": {"scheduled_at": now + ms}}.get(kind, {})
    if kind == "AT" and spec["priority"] == 1:
        spec["schedule"]["delay_ms"] = 50
    spec["schedule"]["type"] = kind
    in_lane = spec["subject_key"] is not None and spec["supersede"] != "none"
    spec["debounce_ms"], spec["max_wait_ms"] = (in_lane and spec.pop("debounce")) or (None, None)
    spec.pop("debounce", None)
    spec["stop_when_lost"] = bool(needy) and spec["stop_when_lost"]
    spec["deadline"] = None if spec["deadline"] is None else now + spec["deadline"]
    return spec


def template_of(drawn: dict[str, Any]) -> dict[str, Any]:
    """What a template may say: nothing that is good for one job only."""
    timeless = {"generation": None, "deadline": None, "idempotency_key": None}
    return spec_of({**drawn, **timeless, "time": ("AFTER", 50) if drawn["time"] else None}, 0)
