"""How a job is named on the command line: by its id, by the first characters of it, or by @last."""

from semantica_daemon.cli import last_job
from semantica_daemon.cli.command import Option
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.client import Client
from semantica_daemon.client.exit_codes import DATA
from semantica_daemon.paths import Paths

LAST = "@last"


def check(text: str) -> str:
    """Refuses text that cannot be an id before the daemon is asked."""
    if text == LAST or (4 <= len(text) <= 36 and last_job.HEX.issuperset(text)):
        return text
    if last_job.HEX.issuperset(text):
        raise ValueError(f"{text!r} is not a job id: give 4 to 36 characters of one, or {LAST}")
    raise ValueError(f"{text!r} is not a job id: job ids contain only 0-9, a-f and -, such as 03a93fac")


def resolve(client: Client, paths: Paths, text: str) -> str:
    """An id or prefix that the daemon understands; only @last is resolved here."""
    if text != LAST:
        return text
    remembered = last_job.recall(paths)
    if remembered:
        return remembered
    newest = client.call("job.list", limit=1)["items"]
    if not newest:
        raise CommandFailed("there is no job yet", "`semantica run -- COMMAND` adds one", DATA)
    return str(newest[0]["job_id"])


ONE_JOB = Option("id ID", "an id, a prefix of one, or @last", check)
JOBS = Option("id ID", "ids, prefixes of ids, or @last", check, nargs="+")
