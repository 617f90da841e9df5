"""The order of waiting jobs: the position of a job that is put between two others, and new positions for those behind
it when the gap is used up. Positions are 100 apart at first; `store/order` finds the neighbours."""

from collections.abc import Sequence

from msgspec import Struct

STEP = 100
NARROW = 8  # a window is spread out only if its jobs are at least so far apart afterwards
WINDOWS = (8, 32, 128, 512)  # jobs behind the gap that are renumbered, at most


class Room(Struct, frozen=True):
    """The position for the moved job, and the new positions of the first jobs behind it."""

    position: int
    behind: tuple[int, ...] = ()


def between(before: int, after: int) -> int | None:
    """The position between these two; None when the gap is used up."""
    return before + (after - before) // 2 if after - before > 1 else None


def make_room(before: int, behind: Sequence[int], window: int) -> Room | None:
    """Spreads the first `window` of the jobs `behind` a gap that is used up, by their positions, in order. With fewer
    jobs than that, all up to the last one are spread. None when the window is too crowded."""
    if len(behind) <= window:
        return Room(before + STEP, tuple(before + STEP * (place + 2) for place in range(len(behind))))
    step = (behind[window] - before) // (window + 2)
    if step < NARROW:
        return None
    return Room(before + step, tuple(before + step * (place + 2) for place in range(window)))


def raised(behind: Sequence[int]) -> list[int]:
    """New positions for the first jobs behind a gap, STEP apart, up to the first one that need not be raised. No
    position becomes lower, so that jobs may be renumbered from the last one on in several transactions."""
    found = []
    for place, position in enumerate(behind):
        target = behind[0] + STEP * (place + 1)
        if position >= target:
            break
        found.append(target)
    return found
