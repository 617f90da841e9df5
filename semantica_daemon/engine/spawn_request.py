"""Builds the request that starts a command: its arguments, directory, environment and files."""

import re
from secrets import token_hex

import msgspec

from semantica_daemon import environment
from semantica_daemon.engine.attempt import SpawnSettings
from semantica_daemon.engine.results import Files
from semantica_daemon.model.command import CommandLine
from semantica_daemon.store.run_transition import Claim
from semantica_daemon.supervisor.messages import SpawnRequest

DEFAULT_UMASK = 0o022
TRACE_ID = re.compile("[0-9a-f]{32}")
_command_line = msgspec.json.Decoder(CommandLine)
_variables = msgspec.json.Decoder(dict[str, str])


class SecretsLost(Exception):
    """Secret variables live in memory only; the daemon was restarted since the job was enqueued."""


def spawn_request(
    claim: Claim, settings: SpawnSettings, files: Files, secrets: dict[str, str], token: str
) -> SpawnRequest:
    """Raises SecretsLost if a secret variable of the job is not among `secrets`."""
    given = _variables.decode(claim.env_vars) if claim.env_vars else {}
    if lost := [name for name in given if name not in secrets and environment.is_secret(name)]:
        names = ", ".join(sorted(lost))
        raise SecretsLost(f"the daemon was restarted and no longer knows {names}: hand the job in again")
    command = _command_line.decode(claim.payload)
    return SpawnRequest(
        run_id=claim.run.run_id,
        argv=command.argv,
        cwd=command.cwd or settings.home,
        env=_environment(claim, settings, files, given | secrets, token),
        umask=DEFAULT_UMASK if command.umask is None else command.umask,
        stdin=command.stdin,
        workspace=files.workspace,
        output=files.output,
        result=files.result,
        log=files.log,
        log_bytes=settings.log_bytes,
        keep_leftovers=claim.spec.leftovers == "keep",
    )


def _environment(
    claim: Claim, settings: SpawnSettings, files: Files, given: dict[str, str], token: str
) -> dict[bytes, bytes]:
    own = {
        **{name: value for name, value in given.items() if not environment.is_reserved(name)},
        "SEMANTICA_SOCKET": settings.socket,
        "SEMANTICA_JOB_ID": claim.run.job_id,
        "SEMANTICA_RUN_ID": claim.run.run_id,
        "SEMANTICA_RUN_TOKEN": token,
        "SEMANTICA_ATTEMPT": str(claim.run.attempt),
        "SEMANTICA_WORKSPACE": files.workspace,
        "SEMANTICA_OUTPUT": files.output,
        "SEMANTICA_RESULT": files.result,
    }
    if claim.job.trace_id and TRACE_ID.fullmatch(claim.job.trace_id):
        own["TRACEPARENT"] = f"00-{claim.job.trace_id}-{token_hex(8)}-01"
    return settings.environment | {
        name.encode(): value.encode("utf-8", "surrogateescape") for name, value in own.items()
    }
