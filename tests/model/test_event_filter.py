"""Which events a subscriber gets: each filter alone, and all of them ANDed."""

import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from semantica_daemon.model import event
from semantica_daemon.model.event import ENDS, Filter, StoredEvent
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.wire.event import Event
from tests.cases import each_case


def recorded(
    job_id: str | None = "j",
    queue: str | None = "q",
    user_tag: str | None = "t",
    kind: str = "job.done",
    level: str = "info",
) -> StoredEvent:
    return StoredEvent(Event(1, 1, job_id, 5, kind, level, "", Raw(b"{}")), queue, user_tag)


@each_case(
    ("fields", "wanted"),
    [
        ({}, True),
        ({"job_id": "j"}, True),
        ({"job_id": "k"}, False),
        ({"queue": "q"}, True),
        ({"queue": "r"}, False),
        ({"user_tag": "t"}, True),
        ({"user_tag": "u"}, False),
        ({"event_types": ("job.queued", "job.done")}, True),
        ({"event_types": ("job.queued",)}, False),
        ({"levels": ("warn", "info")}, True),
        ({"levels": ("warn",)}, False),
        ({"job_id": "j", "queue": "r"}, False),
    ],
)
def test_a_filter_lets_through_what_it_names(fields: dict[str, Any], wanted: bool) -> None:
    assert Filter(**fields).wants(recorded()) == wanted


def test_an_event_of_no_job_passes_only_where_nothing_of_a_job_is_asked_for() -> None:
    about_the_daemon = recorded(None, None, None, "daemon.started")
    assert Filter().wants(about_the_daemon)
    about_a_job = [Filter(job_id="x"), Filter(queue="x"), Filter(user_tag="x")]
    assert not any(asked.wants(about_the_daemon) for asked in about_a_job)


few = st.sampled_from(["a", "b"])


@given(
    st.none() | few, st.none() | few, st.none() | few, st.frozensets(few), st.frozensets(few),
    st.builds(recorded, few, few, few, few, few),
)  # fmt: skip
def test_all_filters_hold_together(
    job_id: str | None,
    queue: str | None,
    tag: str | None,
    kinds: frozenset[str],
    levels: frozenset[str],
    found: StoredEvent,
) -> None:
    parts = [
        Filter(job_id=job_id), Filter(queue=queue), Filter(user_tag=tag),
        Filter(event_types=tuple(kinds)), Filter(levels=tuple(levels)),
    ]  # fmt: skip
    whole = Filter(job_id, queue, tag, tuple(kinds), tuple(levels))
    assert whole.wants(found) == all(part.wants(found) for part in parts)


def test_every_end_of_a_job_has_its_event() -> None:
    assert {f"job.{state.lower()}" for state in TERMINAL} == ENDS


def test_every_type_that_is_emitted_is_known() -> None:
    texts = [file.read_text() for file in (Path(event.__file__).parent.parent / "store").rglob("*.py")]
    emitted = {name for text in texts for name in re.findall(r'announce\(\s*"([a-z_.]+)"', text)}
    emitted |= {f"{family}.{done}" for family in ("schedule", "template") for done in ("created", "changed")}
    emitted |= {f"schedule.{what}" for text in texts for what in re.findall(r'_emit\(tx, schedule, "(\w+)"', text)}
    constants = {value for value in vars(event).values() if isinstance(value, str) and value.startswith("job.")}
    assert len(emitted) > 12
    assert (emitted | constants) - set(event.TYPES) == set()
