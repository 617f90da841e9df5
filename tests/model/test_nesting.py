"""The depth of JSON, against one that walks it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.model import nesting

VALUES = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\a'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('[]{}"\\a', max_size=4), inner, max_size=4),
)


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth, inside), default=0)
    return 0


@given(VALUES, st.integers(min_value=0, max_value=6))
def test_it_is_too_deep_exactly_when_it_is_deeper(value: Any, most: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(nesting, "MOST", most)
        assert nesting.too_deep(json.dumps(value).encode()) == (depth(value) > most)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert not nesting.too_deep(json.dumps([{}] * 10_000).encode())


def test_the_limit_itself_passes_and_one_more_does_not() -> None:
    assert not nesting.too_deep(b"[" * nesting.MOST + b"]" * nesting.MOST)
    assert nesting.too_deep(b"[" * (nesting.MOST + 1) + b"]" * (nesting.MOST + 1))
