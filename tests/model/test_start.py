"""When a new job may start: times, delays, conditions, debounce and turns, by a table and by properties."""

from itertools import accumulate
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.model.admission import AdmittedJob
from semantica_daemon.model.job import check
from semantica_daemon.model.start import Start, quiet_at, start, start_reasons, starts_when
from semantica_daemon.wire.job import JobSpec
from tests.cases import each_case

NOW = 1_000_000
PAST = "the scheduled time is in the past: "


def spec(**fields: Any) -> JobSpec:
    made = msgspec.convert({"job_type": "t", "subject_key": "s", **fields}, JobSpec)
    check(made)
    return made


def closed_gates(made: JobSpec, turn: bool = False) -> int:
    """As many as `store/chains` makes of it."""
    return (made.schedule.wait_for_event is not None) + len(made.schedule.conditions or ()) + turn


def begins(since: int | None = None, turn: bool = False, **fields: Any) -> Start:
    made = spec(**fields)
    return start(made, NOW, since, closed_gates(made, turn))


def admitted(**fields: Any) -> AdmittedJob:
    return AdmittedJob(spec(**fields), "SUBPROCESS", "{}", None)


def at(instant: int, **more: Any) -> dict[str, Any]:
    return {"schedule": {"type": "AT", "scheduled_at": instant, **more}}


def after(delay_ms: int, **more: Any) -> dict[str, Any]:
    return {"schedule": {"type": "AFTER", "delay_ms": delay_ms, **more}}


def when(**conditions: Any) -> dict[str, Any]:
    return {"schedule": {"type": "CONDITION", **conditions}}


def waits(until: int | None = None, is_delay: bool = False, unmet: int = 0, **more: Any) -> Start:
    return Start("SCHEDULED", until, is_delay, unmet, **more)


TABLE: dict[str, tuple[dict[str, Any], Start]] = {
    "nothing to wait for": ({}, Start("QUEUED")),
    "said in so many words": ({"schedule": {"type": "IMMEDIATE"}}, Start("QUEUED")),
    "at": (at(NOW + 1), waits(NOW + 1)),
    "at this very moment": (at(NOW), Start("QUEUED", NOW, warnings=(PAST + "it runs now",))),
    "at a time that has passed": (at(5), Start("QUEUED", 5, warnings=(PAST + "it runs now",))),
    "after": (after(1), waits(NOW + 1, True)),
    "after nothing": (after(0), Start("QUEUED", NOW, True)),
    "at, and after less": (at(NOW + 9, delay_ms=5), waits(NOW + 9, False)),
    "at, and after more": (at(NOW + 5, delay_ms=9), waits(NOW + 9, True)),
    "at a time that has passed, and after": (
        at(5, delay_ms=9), waits(NOW + 9, True, warnings=(PAST + "it does not delay it",))
    ),
    "after, and at a later time": (after(5, scheduled_at=NOW + 9), waits(NOW + 9, False)),
    "when idle": (when(wait_for_idle=True), waits()),
    "on mains": (when(require_charging=True), waits()),
    "on an event": (when(wait_for_event="e"), waits(unmet=1)),
    "on conditions": (when(conditions={"a": "1", "b": "2"}), waits(unmet=2)),
    "on all of them": (
        when(wait_for_idle=True, require_charging=True, wait_for_event="e", conditions={"a": "1"}), waits(unmet=2)
    ),
    "on an event, and at": (when(wait_for_event="e", scheduled_at=NOW + 5), waits(NOW + 5, False, 1)),
    "on an event, and at a time that has passed": (
        at(5, wait_for_event="e"), waits(5, False, 1, warnings=(PAST + "it does not delay it",))
    ),
    "when idle, and after": (after(5, wait_for_idle=True), waits(NOW + 5, True)),
    "when idle, and after nothing": (after(0, wait_for_idle=True), waits(NOW, True)),
    "a deadline that has passed": (
        {"deadline": NOW}, Start("QUEUED", warnings=("the deadline has passed already: it will not run",))
    ),
    "a deadline to come": ({"deadline": NOW + 1}, Start("QUEUED")),
    "a quiet lane": ({"debounce_ms": 5}, waits(NOW + 5, True, postponed_since=NOW)),
    "no quiet at all": ({"debounce_ms": 0}, Start("QUEUED", NOW, True, postponed_since=NOW)),
    "a quiet lane, and at a later time": (
        {"debounce_ms": 5, **at(NOW + 9)}, waits(NOW + 9, False, postponed_since=NOW)
    ),
    "a quiet lane, and after less": ({"debounce_ms": 5, **after(3)}, waits(NOW + 5, True, postponed_since=NOW)),
    "a quiet lane, and an event": (
        {"debounce_ms": 5, **when(wait_for_event="e")}, waits(NOW + 5, True, 1, postponed_since=NOW)
    ),
}  # fmt: skip


@each_case("case", TABLE)
def test_a_job_begins(case: str) -> None:
    fields, expected = TABLE[case]
    assert begins(**fields) == expected


def test_its_turn_is_one_more_thing_that_has_to_happen() -> None:
    assert begins(turn=True) == waits(unmet=1)
    assert begins(turn=True, **after(5, wait_for_event="e")) == waits(NOW + 5, True, 2)


def test_a_lane_that_is_postponed_keeps_since_when() -> None:
    assert begins(since=NOW - 30, debounce_ms=5) == waits(NOW + 5, True, postponed_since=NOW - 30)
    assert begins(since=NOW - 30).postponed_since is None, "one that does not debounce ends it"


@each_case(
    ("since", "expected"),
    [(NOW, waits(NOW + 5, True)), (NOW - 6, waits(NOW + 4, True)), (NOW - 10, Start("QUEUED", NOW, True))],
)
def test_a_busy_lane_is_postponed_no_longer_than_max_wait(since: int, expected: Start) -> None:
    found = begins(since=since, debounce_ms=5, max_wait_ms=10)
    assert found == msgspec.structs.replace(expected, postponed_since=since)


TIMES = st.fixed_dictionaries(
    {},
    optional={
        "scheduled_at": st.integers(NOW - 50, NOW + 50),
        "delay_ms": st.integers(0, 50),
        "debounce_ms": st.integers(0, 50),
    },
)
ONCE = st.fixed_dictionaries(
    {},
    optional={
        "wait_for_event": st.just("e"),
        "conditions": st.dictionaries(st.text("abc", min_size=1), st.text("xy"), max_size=3),
    },
)
NEEDS = st.fixed_dictionaries({"wait_for_idle": st.booleans(), "require_charging": st.booleans()})


def made_of(times: dict[str, Any], once: dict[str, Any], needs: dict[str, Any]) -> JobSpec:
    """Not checked: the rule holds whatever `type` says."""
    debounce = {"debounce_ms": times["debounce_ms"]} if "debounce_ms" in times else {}
    rest = {name: value for name, value in times.items() if name != "debounce_ms"}
    schedule = {"type": "CONDITION", **rest, **once, **needs}
    fields = {"job_type": "t", "subject_key": "s", **debounce, "schedule": schedule}
    return msgspec.convert(fields, JobSpec)


@given(TIMES, ONCE, NEEDS, st.booleans())
def test_all_that_is_asked_for_has_to_hold(
    times: dict[str, Any], once: dict[str, Any], needs: dict[str, bool], turn: bool
) -> None:
    made = made_of(times, once, needs)
    found = start(made, NOW, None, closed_gates(made, turn))
    alone = [start(made_of({name: value}, {}, {}), NOW, None, 0) for name, value in times.items()]
    assert found.at == max((one.at for one in alone if one.at is not None), default=None), "the latest of its times"
    assert found.unmet == closed_gates(made, turn)
    still_to_come = found.at is not None and found.at > NOW
    assert (found.state == "SCHEDULED") == bool(still_to_come or found.unmet or any(needs.values()))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(0, 20), st.integers(0, 60))
def test_however_saves_come_a_lane_is_run_when_quiet_and_never_later_than_max_wait(
    gaps: list[int], debounce_ms: int, more: int
) -> None:
    """Each save replaces the one before, unless that has run by then."""
    max_wait_ms = debounce_ms + more
    since: int | None = None
    due = -1
    for now in accumulate(gaps):
        since = now if since is None or due <= now else since
        due = quiet_at(now, since, debounce_ms, max_wait_ms)
        assert since <= now
        assert due == min(now + debounce_ms, since + max_wait_ms)
        assert due >= now


SAID: list[tuple[dict[str, Any], str]] = [
    ({}, "when a slot is free"),
    (at(5), "when a slot is free"),
    (at(NOW + 5), f"at {NOW + 5} (epoch ms), in 5ms, or later, when a slot is free"),
    (after(5), f"at {NOW + 5} (epoch ms), in 5ms, or later, when a slot is free"),
    (when(wait_for_event="git:commit"), "when event git:commit is emitted and a slot is free"),
    (
        after(5, conditions={"a": "1"}, wait_for_idle=True, require_charging=True),
        f"at {NOW + 5} (epoch ms), in 5ms, or later, when event a=1 is emitted, the machine is idle, "
        "the machine is on mains power and a slot is free",
    ),
]


@each_case(("fields", "words"), SAID)
def test_it_starts(fields: dict[str, Any], words: str) -> None:
    assert starts_when(start_reasons(admitted(**fields), begins(**fields), NOW, False), NOW) == words


def test_it_starts_after_the_running_one_of_its_lane_or_never() -> None:
    assert (
        starts_when(start_reasons(admitted(), begins(), NOW, True), NOW)
        == "when the job before it in its lane has ended"
    )
    assert starts_when(start_reasons(admitted(), Start("SUPERSEDED"), NOW, False), NOW).startswith("never: ")
