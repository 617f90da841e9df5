"""Names that exist now, as the daemon reports them: ids of jobs, queues, tags, schedules … Starts no daemon;
without one there are none. `candidates.py` knows where a name of which kind can stand."""

from collections.abc import Callable

from semantica_daemon import prose
from semantica_daemon.cli import format, ids, repeat
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.json_types import Json
from semantica_daemon.paths import Paths

MOST_JOBS = 200

Candidate = tuple[str, str]  # a value and its description
Candidates = list[Candidate]


def ask(kind: str, word: str, paths: Paths) -> Candidates:
    """The names of this kind; `word` is the beginning that is typed already. Leaves out names that the completion
    script would take for something else: more than one line, or an instruction such as `:command`."""
    try:
        with Client(paths, autostart=False) as client:
            found = FINDERS[kind](client, word)
    except (NoDaemon, CallRefused, ConnectionLost):
        return []
    return [one for one in found if one[0].isprintable() and not one[0].startswith(":")]


def _jobs(client: Client) -> list[Json]:
    found: list[Json] = client.call("job.list", limit=MOST_JOBS)["items"]
    return found


def _ids(client: Client, word: str) -> Candidates:
    """Short ids, until more than that is typed."""
    shown = prose.short_id if len(word) <= len(prose.short_id("0" * 36)) else str
    jobs = [(shown(job["job_id"]), f"{job['state']} {format.command(job) or job['job_type']}") for job in _jobs(client)]
    return [(ids.LAST, "the job you added last"), *jobs]


def _values_of_field(field: str) -> Callable[[Client, str], Candidates]:
    """The values of this field of the newest jobs."""

    def find(client: Client, word: str) -> Candidates:
        return [(value, "") for value in dict.fromkeys(job[field] for job in _jobs(client)) if value]

    return find


def _queues(client: Client, word: str) -> Candidates:
    return [(one["queue"], f"{one['running']} running") for one in client.call("queue.list")["queues"]]


def _schedules(client: Client, word: str) -> Candidates:
    return [(one["name"], repeat.when(one)) for one in client.call("schedule.list")["schedules"]]


def _templates(client: Client, word: str) -> Candidates:
    return [(one["name"], "") for one in client.call("template.list")["templates"]]


def _methods(client: Client, word: str) -> Candidates:
    return [(one["name"], one.get("summary", "")) for one in client.call("rpc.discover")["methods"]]


FINDERS: dict[str, Callable[[Client, str], Candidates]] = {
    "job": _ids,
    "queue": _queues,
    "tag": _values_of_field("user_tag"),
    "group": _values_of_field("chain_group_id"),
    "subject": _values_of_field("subject_key"),
    "type": _values_of_field("job_type"),
    "schedule": _schedules,
    "template": _templates,
    "method": _methods,
}
