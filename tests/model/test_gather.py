"""What a job gathers: every payload once, oldest first, within the limits; and none that is not counted."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.model import gather
from semantica_daemon.model.gather import MOST_BYTES, MOST_PAYLOADS, Gathering, joined, split
from semantica_daemon.model.job import MAX_PAYLOAD_BYTES

values = st.recursive(st.none() | st.integers(-(2**40), 2**40) | st.text(max_size=5), st.lists, max_leaves=3)
payloads = st.dictionaries(st.text(max_size=8).filter(lambda name: not name.startswith("gathered")), values, max_size=3)


def gathering(own: dict[str, Any], items: list[dict[str, Any]], dropped: int) -> Gathering:
    """Made by way of its text."""
    fields = {"gathered": items, **({"gathered_dropped": dropped} if dropped else {})} if items or dropped else {}
    return split(json.dumps({**own, **fields}))


gatherings = st.tuples(payloads, st.lists(payloads, max_size=4), st.integers(0, 3))


@given(gatherings, st.lists(gatherings, max_size=3), st.lists(gatherings, max_size=3))
def test_all_payloads_come_along_in_order(this: Any, before: Any, after: Any) -> None:
    older, newer = ([gathering(*one) for one in side] for side in (before, after))
    found = json.loads(joined(gathering(*this), older, newer))
    flat = [item for own, items, _ in before for item in (*items, own)]
    flat += this[1] + [item for own, items, _ in after for item in (*items, own)]
    dropped = sum(one[2] for one in (this, *before, *after))
    assert found == this[0] | {"gathered": flat} | ({"gathered_dropped": dropped} if dropped else {})


@given(st.integers(0, 3 * MOST_PAYLOADS))
def test_the_newest_stay_and_the_others_are_counted(count: int) -> None:
    others = [split(json.dumps({"n": number})) for number in range(count)]
    found = json.loads(joined(split("{}"), others))
    kept = min(count, MOST_PAYLOADS)
    assert [one["n"] for one in found["gathered"]] == list(range(count - kept, count))
    assert found.get("gathered_dropped", 0) == count - kept


def test_the_bytes_are_limited_too() -> None:
    others = [split(json.dumps({"text": "x" * 100_000, "n": number})) for number in range(15)]
    text = joined(split("{}"), others)
    assert [one["n"] for one in json.loads(text)["gathered"]] == list(range(6, 15))
    assert len(text) <= MOST_BYTES + gather.OTHER_BYTES


def test_a_payload_that_is_nearly_too_long_gathers_what_fits() -> None:
    own = json.dumps({"text": "x" * (MAX_PAYLOAD_BYTES - 1000)})
    text = joined(split(own), [split(json.dumps({"n": number, "text": "x" * 100})) for number in range(50)])
    assert len(text.encode()) <= MAX_PAYLOAD_BYTES
    found = json.loads(text)
    assert len(found["gathered"]) + found["gathered_dropped"] == 50
    assert 0 < len(found["gathered"]) < 10


def test_the_payload_of_a_job_that_does_not_gather_is_its_own_whatever_it_has() -> None:
    assert split('{"gathered": 7}', gathers=False) == Gathering('{"gathered": 7}')
