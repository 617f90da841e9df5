"""The jobs whose end another job waits for, as `--needs ID,ID` and `--on-event job:ID` name them."""

from semantica_daemon import prose
from semantica_daemon.cli import ids
from semantica_daemon.cli.command import Json, Option
from semantica_daemon.client.client import Client
from semantica_daemon.paths import Paths

JOB = "job:"
MOST_NAMED = 3


def check(text: str) -> list[str]:
    """Ids, prefixes or @last, separated by commas or white space."""
    found = [ids.check(one) for one in text.replace(",", " ").split()]
    if not found:
        raise ValueError("it is empty: give the id of a job, or several, separated by commas")
    return found


def parents(given: list[list[str]] | None) -> Json:
    """The field of a JobSpec."""
    return {"parents": list(dict.fromkeys(one for part in given for one in part))} if given else {}


def end_of_job(key: str, value: str | None) -> tuple[str, str | None]:
    """The event `job:ID=failed` as the daemon writes it."""
    if not key.startswith(JOB):
        return key, value
    ids.check(key.removeprefix(JOB))
    return key, None if value is None else value.upper()


def resolve(client: Client, paths: Paths, spec: Json) -> Json:
    """The spec with the id of the job that @last stands for."""
    found = dict(spec)
    if "parents" in found:
        found["parents"] = [ids.resolve(client, paths, one) for one in found["parents"]]
    schedule = found.get("schedule") or {}
    if JOB + ids.LAST in (schedule.get("wait_for_event"), *schedule.get("conditions", ())):
        found["schedule"] = _with_last(schedule, JOB + ids.resolve(client, paths, ids.LAST))
    return found


def _with_last(schedule: Json, last: str) -> Json:
    named, found = {JOB + ids.LAST: last}, dict(schedule)
    if "wait_for_event" in found:
        found["wait_for_event"] = named.get(found["wait_for_event"], found["wait_for_event"])
    if "conditions" in found:
        found["conditions"] = {named.get(key, key): value for key, value in found["conditions"].items()}
    return found


def reasons(spec: Json) -> list[prose.Facts]:
    """What it waits for, in the typed form of job.plan: of many jobs the first ones, and the number of the others."""
    schedule = spec.get("schedule") or {}
    ends = [(one, "DONE") for one in spec.get("parents") or []]
    events = [(schedule.get("wait_for_event") or "", None), *(schedule.get("conditions") or {}).items()]
    ends += [(key.removeprefix(JOB), value) for key, value in events if key.startswith(JOB)]
    named: list[prose.Facts] = [{"kind": "parent", "job_id": one, "value": value} for one, value in ends[:MOST_NAMED]]
    return [*named, {"kind": "parents", "count": len(ends) - MOST_NAMED}] if len(ends) > MOST_NAMED else named


OPTION = Option(
    "--needs ID[,ID…]",
    "when these jobs are DONE; any other end of one of them cancels it (may be repeated)",
    check,
    action="append",
)
