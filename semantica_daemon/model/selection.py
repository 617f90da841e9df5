"""The rules for selecting jobs, by ids or by one field, and for what each method does to a job that is selected.

`store/selected` finds the jobs, `engine/selections` changes them in portions.
"""

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.state import RUNNING, TERMINAL
from semantica_daemon.wire.selection import SelectionParams

FIELDS = ("job_id", "job_ids", "user_tag", "chain_group_id", "subject_key", "queue", "schedule_id")
UNCHANGED = "unchanged"

Among = Literal["live", "ended"]
Lists = dict[str, list[str]]  # the result of such a method: ids by what was done to them


class Selection(Struct, frozen=True):
    """Either `job_ids` (whole or prefixes), or a `field` of jobs and its `value`."""

    job_ids: tuple[str, ...] = ()
    field: str = ""
    value: str = ""


class Hit(Struct, frozen=True):
    """A job that is selected."""

    number: int
    job_id: str
    state: str
    is_held: int = 0
    is_archived: int = 0


Rule = Callable[[Hit], str]  # the name of the list that the job belongs to


def selection(params: SelectionParams) -> Selection:
    given = {name: value for name in FIELDS if (value := getattr(params, name)) is not None}
    if len(given) != 1:
        problem = f"exactly one of {', '.join(FIELDS)} is needed, {len(given)} are given"
        raise InvalidParams(problem, "name one", path="$")
    ((field, value),) = given.items()
    if field == "job_id":
        return Selection((value,))
    return Selection(tuple(value)) if field == "job_ids" else Selection(field=field, value=value)


def sorted_hits(rule: Rule, hits: Iterable[Hit]) -> Lists:
    """The ids of the jobs, by the list that they belong to."""
    found: Lists = {}
    for hit in hits:
        found.setdefault(rule(hit), []).append(hit.job_id)
    return found


def to_cancel(hit: Hit) -> str:
    if hit.state == RUNNING:
        return "cancelling"
    return UNCHANGED if hit.state in TERMINAL else "cancelled"


def to_cancel_waiting(hit: Hit) -> str:
    """As `to_cancel`, but jobs that run are left alone."""
    return UNCHANGED if hit.state == RUNNING else to_cancel(hit)


def to_hold(hit: Hit) -> str:
    return UNCHANGED if hit.state in (RUNNING, *TERMINAL) or hit.is_held else "changed"


def to_release(hit: Hit) -> str:
    return "changed" if hit.is_held else UNCHANGED


def to_archive(hit: Hit) -> str:
    return "changed" if hit.state in TERMINAL and not hit.is_archived else UNCHANGED
