"""Builds the request that starts a command: its arguments, directory, environment and files."""

import re
from secrets import token_hex

import msgspec

from semantica_daemon import environment
from semantica_daemon.engine.attachments import Attachment
from semantica_daemon.engine.attempt import SpawnSettings
from semantica_daemon.model.caller_environment import variables_of
from semantica_daemon.model.command import CommandLine
from semantica_daemon.model.gather import split
from semantica_daemon.model.job import lost_secrets
from semantica_daemon.model.run_limits import NO_LIMITS, check_limits
from semantica_daemon.processes import cgroups
from semantica_daemon.store.run_transition import Claim
from semantica_daemon.supervisor.messages import SpawnRequest

DEFAULT_UMASK = 0o022
TRACE_ID = re.compile("(?!0{32})[0-9a-f]{32}")
_command_line = msgspec.json.Decoder(CommandLine)
_variables = msgspec.json.Decoder(dict[str, str])


class SecretsLost(Exception):
    """Secret variables live in memory only; the daemon was restarted since the job was enqueued."""


def workspace_of(claim: Claim, settings: SpawnSettings) -> str:
    return f"{settings.workspaces}/{claim.run.job_id}"


def spawn_request(
    claim: Claim,
    settings: SpawnSettings,
    secrets: dict[str, str],
    token: str,
    attachment: Attachment | None,
    own: dict[str, str],
) -> SpawnRequest:
    """Raises SecretsLost if a secret variable that was set by name is not among `secrets`. The first run of a job has
    `job.log`, the second `job.2.log`. `own`: variables of a run that has parents or gathers payloads."""
    given = _variables.decode(claim.env_vars) if claim.env_vars else {}
    if lost := [name for name in lost_secrets(given) if name not in secrets]:
        names = ", ".join(lost)
        raise SecretsLost(f"the daemon was restarted and no longer knows {names}: hand the job in again")
    command = _command_line.decode(split(claim.payload).own if claim.spec.gather else claim.payload)
    workspace = workspace_of(claim, settings)
    number = "" if claim.run.run_number == 1 else f".{claim.run.run_number}"
    output, result = f"{workspace}/output", f"{workspace}/result{number}.json"
    places = {"SEMANTICA_WORKSPACE": workspace, "SEMANTICA_OUTPUT": output, "SEMANTICA_RESULT": result}
    if command.event is not None:
        places |= {"SEMANTICA_EVENT_KEY": command.event.key, "SEMANTICA_EVENT_VALUE": command.event.value or ""}
    return SpawnRequest(
        run_id=claim.run.run_id,
        argv=command.argv,
        cwd=command.cwd or settings.home,
        env=_environment(claim, settings, given | secrets, {**places, **own, "SEMANTICA_RUN_TOKEN": token}),
        umask=DEFAULT_UMASK if command.umask is None else command.umask,
        stdin=command.stdin,
        workspace=workspace,
        output=output,
        result=result,
        log=f"{workspace}/job{number}.log",
        log_bytes=settings.log_bytes,
        keep_leftovers=claim.spec.leftovers == "keep",
        is_followed=attachment is not None,
        has_input=attachment is not None and attachment.has_input and command.stdin is None,
        window=None if attachment is None or command.stdin is not None else attachment.window,
        control=_control(claim, settings) if settings.cgroups.path or claim.spec.limits is not None else None,
    )


def _control(claim: Claim, settings: SpawnSettings) -> tuple[str, int | None, int | None, int | None]:
    """The fields of a Control. Raises NotSupported if a restarted daemon lacks the cgroup that a limit needs."""
    root, limits = settings.cgroups, claim.spec.limits or NO_LIMITS
    check_limits(limits, claim.mode, root.controllers)
    cgroup = cgroups.path_of(root.path, claim.run.run_id) if root.path else ""
    return cgroup, limits.memory_bytes, limits.cpu_percent, limits.nice


def _environment(
    claim: Claim, settings: SpawnSettings, given: dict[str, str], own: dict[str, str]
) -> dict[bytes, bytes]:
    """The environment of the caller, else the base environment; the variables given with the job, and those of the
    run."""
    beneath = {} if claim.environment is None else variables_of(claim.environment)
    variables = {
        **beneath,
        **{name: value for name, value in given.items() if not environment.is_reserved(name)},
        **own,
        "SEMANTICA_JOB_ID": claim.run.job_id,
        "SEMANTICA_RUN_ID": claim.run.run_id,
        "SEMANTICA_ATTEMPT": str(claim.run.attempt),
    }
    if claim.job.trace_id and TRACE_ID.fullmatch(claim.job.trace_id):
        flags = claim.spec.trace_flags or "01"
        variables["TRACEPARENT"] = f"00-{claim.job.trace_id}-{token_hex(8)}-{flags}"
    encoded = {name.encode(): value.encode("utf-8", "surrogateescape") for name, value in variables.items()}
    if claim.environment is not None:
        return settings.daemon_variables | encoded
    return settings.environment | settings.daemon_variables | encoded if given else settings.environment | encoded
