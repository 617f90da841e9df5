"""How a command fails: the sentence, the hint in words of the shell, and the exit code, for every kind of error."""

import os

from semantica_daemon import prose
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.exit_codes import DATA, INTERNAL, NO_DAEMON, PERMISSION, TEMPORARY, USAGE
from semantica_daemon.client.json_types import Json
from semantica_daemon.paths import find

# By the number of a refusal; a refusal that can be retried is TEMPORARY whatever its number.
EXIT_CODES = {
    -32600: DATA, -32603: INTERNAL, -32800: TEMPORARY, 4001: DATA, 4002: DATA, 4003: TEMPORARY, 5001: INTERNAL,
    5002: INTERNAL,
}  # fmt: skip
MOST_CANDIDATES = 10
# By the stable code of a refusal whose own hint speaks of methods; the names in braces are fields of its data.
SHELL_HINTS = {
    "E_JOB_NOT_FOUND": "`semantica list` shows the jobs",
    "E_TEMPLATE_NOT_FOUND": "`semantica template list` shows the templates",
    "E_SCHEDULE_NOT_FOUND": "`semantica schedule list` shows the schedules",
    "E_RUN_NOT_FOUND": "`semantica show {job_id}` lists its runs",
    "E_QUEUE_FULL": "try again later, or raise the limit with `semantica queue set {queue} --max-queued N`",
    "E_TOO_MANY_SLOTS": "ask for fewer, or raise the limit with `semantica queue set {queue} --slots N`",
    "E_GROUP_NOT_FOUND": "`semantica group list --all` shows the groups",
    "E_GROUP_EXISTS": "`semantica group show {chain_group_id}` shows its rules, which cannot change",
    "E_STALE": "--force runs the older generation all the same; `semantica show {newest_job_id}` shows the newest job",
    "E_NOT_ENDED": "`semantica wait {job_id}` waits for its end, `semantica cancel {job_id}` ends it",
    "E_SECRET_LOST": "add the job again with `semantica add --env NAME`, which gives it the secret",
    "E_QUEUE_IN_USE": "`semantica cancel --queue {queue}` ends them, `semantica list --queue {queue}` shows them",
    "E_PARENT_ENDED": "`semantica retry {job_id}` runs that job once more; name the new job",
    "E_IN_USE": "delete the schedule first, with `semantica schedule delete NAME`",
    "E_ARCHIVED": "`semantica show {job_id}` shows how it ended",
    "E_RESERVED": "--wait 30s waits for its end, `semantica status` shows what is reserved",
    "E_RESERVATION_NOT_FOUND": "`semantica status` shows what is reserved",
    "E_RESERVATION_OVER": "`semantica status` shows what is reserved",
    "E_OUTCOME_UNKNOWN": "check the disk; when the daemon is back, repeat the command with the same --key",
}
# The commands that do what a method does which a hint may name.
COMMANDS_OF_METHODS = {
    "job.get": "show", "job.list": "list", "job.cancel": "cancel", "job.logs": "logs", "job.wait": "wait",
    "job.explain": "why", "job.update": "edit", "job.retry": "retry",
    "queue.configure": "queue set", "queue.list": "queue", "event.list": "events",
    "event.subscribe": "events -f", "event.emit": "emit", "template.list": "template", "schedule.list": "schedule",
    "rpc.discover": "--help",
}  # fmt: skip
# By the field that was refused because another option is missing.
MISSING_OPTIONS = {
    "generation": "add --subject NAME",
    "force": "add --newest-wins FILE, or --subject NAME with --generation N",
    "debounce_ms": "with --supersede none there is no newer job to wait for: leave it out as well",
    "max_wait_ms": "add --debounce D, no longer than --max-wait",
    "stop_when_lost": "add --when-idle or --on-power",
}
# By the field: a problem that the daemon describes in words of the protocol.
SHELL_PROBLEMS = {"debounce_ms": "--debounce needs --subject or --newest-wins"}


class CommandFailed(Exception):
    """A command ends here: the message says what is wrong, `hint` what to do."""

    def __init__(self, message: str, hint: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.hint = hint


def describe(error: Exception, command: str) -> tuple[str, str]:
    """The sentence and the hint, for the user of this command. Only `rpc` shows the protocol's names of fields."""
    if isinstance(error, ConnectionLost):
        return str(error), _hint_after_loss()
    if not isinstance(error, CallRefused):
        return str(error), error.hint if isinstance(error, CommandFailed) else ""
    if command.startswith("rpc"):
        hint = str(error.data.get("hint") or "").replace("rpc.discover", "`semantica rpc rpc.discover`")
        return _about_method(error, command.partition(" ")[2]), hint
    from semantica_daemon.cli.job_options import option_of  # noqa: PLC0415

    # The field at this JSON path: `ttl_ms` for `$.spec.ttl_ms`.
    field = str(error.data.get("path") or "").removeprefix("$.").removeprefix("spec.").partition("[")[0]
    field = "schedule.conditions" if field.startswith("schedule.conditions.") else field
    if "reserved_by" in error.data:
        from semantica_daemon.cli import reservations  # noqa: PLC0415

        return reservations.sentence(error.data), _hint(error.data, field, command)
    option = option_of(field)
    hint = _hint(error.data, field, command)
    if field in SHELL_PROBLEMS and error.data.get("rule") != "schema":
        return SHELL_PROBLEMS[field], hint
    return error.message if option is None else _sentence(option, error), hint


def _sentence(what: str, error: CallRefused) -> str:
    problem = prose.requirement(str(error.data.get("problem") or error.message))
    if what == "--supersede" and problem.startswith(("keep ", "append ")):
        return f"--{problem}"
    return f"{what}{' ' if problem.startswith(('has no', 'takes no')) else ': '}{problem}"


def _about_method(error: CallRefused, method: str) -> str:
    """Names the field that the method does not have, or that the parameters lack."""
    path, problem = str(error.data.get("path") or ""), str(error.data.get("problem") or "")
    if problem == "unknown field":
        return f"{method} has no field {path.removeprefix('$.')}"
    if problem == prose.requirement(problem):
        return error.message
    return _sentence(f"{method}: the object" if path == "$" else path, error)


def _hint_after_loss() -> str:
    from semantica_daemon.client import daemon_lock, unit  # noqa: PLC0415

    paths = find(os.environ)
    if unit.is_installed(paths) and not daemon_lock.is_held(paths.lock):
        return "its service cannot start it: `semantica service status` shows why"
    return "the last command may have had its effect: check with `semantica list`"


def _hint(data: Json, field: str, command: str) -> str:
    if data.get("rule") == "schema":
        return f"`semantica {command} --help` describes its options"
    if data.get("code") == "E_PARAMS" and field in MISSING_OPTIONS:
        return MISSING_OPTIONS[field]
    if data.get("code") == "E_QUEUE_NOT_FOUND" and command in ("queue pause", "queue set"):
        return f"{in_shell_words(str(data.get('hint')))} (--create makes a new one)"
    if data.get("code") == "E_AMBIGUOUS_ID":
        return f"give more characters: {_candidates(data.get('matches') or [])}"
    template = SHELL_HINTS.get(str(data.get("code")))
    return in_shell_words(str(data.get("hint") or "")) if template is None else template.format_map(data)


def in_shell_words(hint: str) -> str:
    """The hint with commands in place of the methods that it names."""
    for method, command in COMMANDS_OF_METHODS.items():
        hint = hint.replace(method, f"`semantica {command}`")
    return hint


def _candidates(job_ids: list[str]) -> str:
    """The first ids, each as long as it takes to tell it from the others."""
    length = next((end for end in range(8, 36) if len({one[:end] for one in job_ids}) == len(job_ids)), 36)
    shown = [one[:length] for one in job_ids[:MOST_CANDIDATES]]
    return ", ".join(shown) + (" …" if len(job_ids) > MOST_CANDIDATES else "")


def exit_code(error: Exception) -> int:
    if isinstance(error, CommandFailed | NoDaemon):
        return error.exit_code
    if isinstance(error, CallRefused):
        if error.data.get("retryable"):
            return TEMPORARY
        return DATA if error.data.get("code") == "E_PAYLOAD" else EXIT_CODES.get(error.code, USAGE)
    return NO_DAEMON if isinstance(error, ConnectionLost) else PERMISSION
