"""The positions of moved jobs: between two others while there is a gap, else a few jobs behind it are spread."""

from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.model.order import NARROW, STEP, WINDOWS, between, make_room, raised

positions = st.lists(st.integers(0, 5000), min_size=1, max_size=100).map(sorted)


@given(st.integers(-1000, 1000), st.integers(0, 1000))
def test_a_position_is_between_two_others_or_there_is_none_left(before: int, gap: int) -> None:
    found = between(before, before + gap)
    assert (found is None) == (gap < 2)
    assert found is None or before < found < before + gap


def test_seven_jobs_fit_into_a_new_gap() -> None:
    before, after, moved = 100, 200, 0
    while (middle := between(before, after)) is not None:
        before, moved = middle, moved + 1
    assert moved == 7


@given(positions, st.integers(0, 50), st.sampled_from([1, 8, 64]))
def test_room_is_made_without_changing_the_order(behind: list[int], gap: int, window: int) -> None:
    before = behind[0] - gap
    room = make_room(before, behind, window)
    if room is None:
        assert behind[window] - before < (window + 2) * NARROW
        return
    new = [*room.behind, *behind[len(room.behind) :]]
    assert len(new) == len(behind)
    whole = [before, room.position, *new]
    assert whole[: window + 3] == sorted(set(whole[: window + 3]))
    assert whole == sorted(whole)


def test_the_last_jobs_of_a_queue_always_have_room() -> None:
    room = make_room(7, [7, 7, 8], 8)
    assert room is not None
    assert (room.position, room.behind) == (7 + STEP, (7 + 2 * STEP, 7 + 3 * STEP, 7 + 4 * STEP))


def test_eight_jobs_are_enough_where_the_positions_are_those_of_the_counter() -> None:
    behind = [101, *range(200, 5000, STEP)]
    assert make_room(100, behind, WINDOWS[0]) is not None


@given(positions, st.data())
def test_positions_are_only_raised_so_that_the_order_holds_after_each_part(
    behind: list[int], data: st.DataObject
) -> None:
    targets = raised(behind)
    cut = data.draw(st.integers(0, len(targets)))
    partly = [*behind[:cut], *targets[cut:], *behind[len(targets) :]]
    assert partly == sorted(partly)
    assert all(target > old for target, old in zip(targets, behind, strict=False))
    done = [*targets, *behind[len(targets) :]]
    assert done[0] - behind[0] >= STEP
