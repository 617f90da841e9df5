"""The rule for selecting jobs: by ids, or by one field of the jobs that are live."""

from msgspec import Struct

from semantica_daemon.errors import InvalidParams
from semantica_daemon.wire.job import CancelParams

FIELDS = ("job_id", "job_ids", "user_tag", "chain_group_id", "subject_key", "queue")


class Selection(Struct, frozen=True):
    """Either `job_ids` (whole or prefixes), or a `field` of live jobs and its `value`."""

    job_ids: tuple[str, ...] = ()
    field: str = ""
    value: str = ""


def selection(params: CancelParams) -> Selection:
    given = {name: value for name in FIELDS if (value := getattr(params, name)) is not None}
    if len(given) != 1:
        problem = f"exactly one of {', '.join(FIELDS)} is needed, {len(given)} are given"
        raise InvalidParams(problem, "name one", path="$")
    ((field, value),) = given.items()
    if field == "job_id":
        return Selection((value,))
    return Selection(tuple(value)) if field == "job_ids" else Selection(field=field, value=value)
