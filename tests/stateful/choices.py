"""What the store's machine may choose from: few values of each kind, so that jobs, events and schedules meet."""

from typing import Any

from hypothesis import strategies as st

from semantica_daemon.model.outcome import CRASHED, SHUT_DOWN, Outcome
from semantica_daemon.wire.run import Error
from tests.stateful.timetable import INTERVALS, PERIODS, REBOOT
from tests.store.steps import BAD, GOOD, HOPELESS

IDLE, POWER = {"wait_for_idle": True}, {"require_charging": True}
WAITS: list[dict[str, Any]] = [
    IDLE, IDLE, POWER, POWER, IDLE | POWER, {"wait_for_event": "e"}, {"wait_for_event": "c"},
    {"conditions": {"c": "1"}},
    {"conditions": {"c": "1", "d": "2"}}, {"wait_for_event": "c", "conditions": {"c": "1"}}, {"conditions": {}},
    IDLE | {"wait_for_event": "e"}, POWER | {"conditions": {"d": "2"}}, IDLE | POWER | {"wait_for_event": "c"},
]  # fmt: skip

# Instants are relative to now, generations to the newest of the lane, parents to the newest job.
SPEC: dict[str, list[Any]] = {
    "job_type": ["semantica.noop", "semantica.noop", "semantica.echo"],
    "execution_mode": [None, None, "SUBPROCESS"],
    "queue": ["default", "default", "one", "small", "extra"],
    "subject_key": ["a", "a", "a", "b", None],
    "generation": [None, None, 1, 1, 2, 0, -1, -2],
    "supersede": ["lane", "lane", "lane", "subject", "none", "keep", "append", "append"],
    "gather": [False, True],
    "argv": [["true"], ["true", "1"], ["true", "2"]],
    "on_running": ["finish", "cancel"],
    "max_interrupts": [0, 1, 2],
    "priority": [0, -1, 1],
    "time": [None] * 8 + [("AFTER", 0), ("AFTER", 50), ("AFTER", 4000), ("AT", 200), ("AT", -5), ("AT", 3_600_000)],
    "waits": [{}] * 8 + WAITS,
    "parents": [None] * 9 + [(0,), (1,), (3,), (0, 1), (2, 5)],
    "stop_when_lost": [False, True],
    "debounce": [None] * 4 + [(20, None), (20, 60), (0, 0)],
    "hold": [False] * 12 + [True],
    "ttl_ms": [None] * 7 + [0, 40],
    "deadline": [None] * 9 + [0, 30],
    "max_attempts": [0, 1, 2, 3],
    "backoff_base_ms": [0, 100],
    "on_interrupt": ["fail", "requeue"],
    "idempotency_key": [None, None, None, None, "k", "l"],
    "force": [False, False, True],
    "environment": [None, None, None, {"A": "1"}, {"A": "2", "B": "1"}, {"A": "1", "TOKEN": "x"}],
    "env_vars": [None, None, None, None, {"C": "3"}, {"TOKEN": "y"}],
}
UNSTARTED = Outcome(error=Error("E_SPAWN", "infra", "no process to be had"), unstarted=True)
OUTCOMES = [GOOD, GOOD, BAD, BAD, HOPELESS, CRASHED, SHUT_DOWN, UNSTARTED]
STEPS_MS = [1, 10, 50, 200, 500, 2000, 5000, 61_000, 86_400_000]
PAUSABLE = ["default", "one", None]
EVENTS = [("e", None), ("e", "1"), ("c", "1"), ("c", "2"), ("c", None), ("d", "2"), ("x", "1")]
FACTS = [(True, True), (True, True), (True, True), (True, False), (False, True), (False, False)]
SETS_MS = [1000, -1000, 3_600_000, -3_600_000, 86_400_000, -7 * 86_400_000]
SET_WHILE_AWAY_MS = [0, 0, 0, 60_000, -60_000, -86_400_000]
NAMES = ["s", "t"]
QUEUES = ["default", "one", "small", "extra", "extra", "none"]
SETTINGS = [{"slots": 0}, {"slots": 1}, {"slots": 2}, {"max_queued": 2}, {"slots": 2, "max_queued": 6}, {}]
ALL_SLOTS = [0, 0, 1, 2, 4]
PAYLOADS = [None, None, {"argv": ["false"]}]
REPEATS: list[dict[str, Any]] = [
    *({"cron_expression": one} for one in PERIODS),
    *({"cron_expression": one} for one in INTERVALS),
    {"cron_expression": REBOOT},
    {"every_ms": 3000},
    {"every_ms": 7000},
    {"on_event": "e"},
    {"on_event": "c"},
    {"on_event": "c", "event_value": "1"},
]
SCHEDULE: dict[str, list[Any]] = {
    "name": NAMES,
    "template_id": NAMES,
    "repeat": REPEATS,
    "jitter_ms": [0, 0, 0, 40, 4000],
    "enabled": [True, True, True, False],
    "misfire": ["run_once", "skip", "run_all"],
    "overlap": ["queue", "queue", "skip", "supersede"],
    "param_overrides": [None, {"cwd": "/"}],
}

specs = st.fixed_dictionaries({field: st.sampled_from(values) for field, values in SPEC.items()})
schedules = st.fixed_dictionaries({field: st.sampled_from(values) for field, values in SCHEDULE.items()})
outcomes = st.sampled_from(OUTCOMES)
names = st.sampled_from(NAMES)
sets_while_away = st.sampled_from(SET_WHILE_AWAY_MS)
picks = st.integers(0, 10**6)


def spec_of(drawn: dict[str, Any], now: int) -> dict[str, Any]:
    """A spec that is sound, with instants as they are now."""
    spec = {**drawn, "payload": {"argv": drawn["argv"]}, "schedule": dict(drawn["waits"])}
    del spec["waits"], spec["argv"]
    needy = {"wait_for_idle", "require_charging"} & spec["schedule"].keys()
    kind, ms = spec.pop("time") or ("CONDITION" if any(spec["schedule"].values()) else "IMMEDIATE", 0)
    spec["schedule"] |= {"AFTER": {"delay_ms": ms}, "AT": {"scheduled_at": now + ms}}.get(kind, {})
    if kind == "AT" and spec["priority"] == 1:
        spec["schedule"]["delay_ms"] = 50
    spec["schedule"]["type"] = kind
    _choose_mode(spec)
    spec["stop_when_lost"] = bool(needy) and spec["stop_when_lost"]
    spec["force"] = spec["force"] and spec["generation"] is not None
    spec["deadline"] = None if spec["deadline"] is None else now + spec["deadline"]
    return spec


def _choose_mode(spec: dict[str, Any]) -> None:
    """Leaves out what makes no sense in its lane."""
    if spec["subject_key"] is None and spec["supersede"] in ("keep", "append"):
        spec["supersede"] = "lane"
    is_replaced = spec["subject_key"] is not None and spec["supersede"] not in ("none", "append")
    spec["debounce_ms"], spec["max_wait_ms"] = (
        spec.pop("debounce") if is_replaced and spec["debounce"] else (None, None)
    )
    spec.pop("debounce", None)
    spec["gather"] = is_replaced and spec["gather"]
    if spec["supersede"] in ("keep", "append"):
        spec["generation"] = None
    if spec["supersede"] == "append":
        spec["on_running"] = "finish"


def template_of(drawn: dict[str, Any]) -> dict[str, Any]:
    """What a template may say: nothing that is good for one job only."""
    timeless = {"generation": None, "deadline": None, "idempotency_key": None, "environment": None, "parents": None}
    timeless["env_vars"] = drawn["env_vars"] if "TOKEN" not in (drawn["env_vars"] or {}) else None
    return spec_of({**drawn, **timeless, "time": ("AFTER", 50) if drawn["time"] else None}, 0)


def schedule_of(drawn: dict[str, Any]) -> dict[str, Any]:
    return {**drawn["repeat"], **{field: value for field, value in drawn.items() if field != "repeat"}}
