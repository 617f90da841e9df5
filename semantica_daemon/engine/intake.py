"""What a spec must be before the writer sees it: sound in itself, runnable here, and small enough to keep."""

import os
from typing import Any

import msgspec

from semantica_daemon import environment
from semantica_daemon.engine.handlers import Handlers
from semantica_daemon.errors import InvalidParams, NotSupported, Refusal
from semantica_daemon.model.command import check_length, check_variables, command_line
from semantica_daemon.model.job import MAX_PAYLOAD_BYTES, check, redacted, spec_hash
from semantica_daemon.model.nesting import MOST, too_deep
from semantica_daemon.store.admitted import Admitted
from semantica_daemon.wire.job import JobSpec

DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
LONG_NUMBER = b"0" * 19
LARGEST = 2**63
FOR_COMMANDS = "env_vars is not used: a handler has the daemon's own environment"
OURS_BYTES = 8192  # left for the variables that every run is given


class Intake:
    def __init__(self, handlers: Handlers, inherited: dict[str, str]) -> None:
        """`inherited`: what a run has of the daemon's own environment."""
        self._handlers = handlers
        self._inherited = inherited
        self._longest = os.sysconf("SC_ARG_MAX") - OURS_BYTES

    def admit(self, spec: JobSpec) -> Admitted:
        """One that names a template is looked at when that has filled it in, inside the transaction."""
        if spec.template_id is not None:
            return Admitted(spec, "", "", spec_hash(spec) if spec.idempotency_key else None)
        check(spec)
        mode = self._mode(spec)
        try:
            payload = self._payload(spec)
        except RecursionError:
            raise _refused("the payload is nested too deep", "put it into a file and name the file") from None
        admitted = Admitted(spec, mode, payload, spec_hash(spec) if spec.idempotency_key else None)
        if mode == "IN_PROCESS":
            self._handlers.check(spec.job_type, payload.encode())
            return msgspec.structs.replace(admitted, warnings=(FOR_COMMANDS,)) if spec.env_vars else admitted
        return self._command(admitted)

    def _command(self, job: Admitted) -> Admitted:
        """What can be known now of whether it can be run; whether the command is there shows when it is."""
        env = job.spec.env_vars or {}
        if "argv" not in job.spec.payload and job.spec.execution_mode is None:
            self._handlers.get(job.spec.job_type)  # refuses: a name that was mistyped is likelier than a command
        check_variables(env)
        check_length(command_line(job.spec.payload), {**self._inherited, **env}, self._longest)
        if not env:
            return job
        refused = tuple(f"env_vars.{name} is not given to the job" for name in env if environment.is_ours(name))
        secrets = {name: value for name, value in env.items() if environment.is_secret(name)}
        stored = msgspec.json.encode(redacted(env)).decode()
        return msgspec.structs.replace(job, env=stored, secrets=secrets or None, warnings=refused)

    def _payload(self, spec: JobSpec) -> str:
        payload = msgspec.json.encode(spec.payload)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise _refused(
                f"the payload has {len(payload)} bytes, at most {MAX_PAYLOAD_BYTES} are taken",
                "put it into a file and name the file",
            )
        if too_deep(payload):
            raise _refused(f"the payload is nested deeper than {MOST} levels", "put it into a file and name the file")
        if LONG_NUMBER in payload.translate(DIGITS):
            _check_integers(spec.payload, "$.payload")
        return payload.decode()

    def admit_all(self, specs: list[JobSpec]) -> list[Admitted]:
        admitted = []
        for number, spec in enumerate(specs):
            try:
                admitted.append(self.admit(spec))
            except Refusal as refused:
                refused.moved("$", f"$.jobs[{number}]")
                raise
        return admitted

    def _mode(self, spec: JobSpec) -> str:
        """As asked for; else IN_PROCESS when there is a handler, SUBPROCESS when there is none."""
        if spec.execution_mode == "IN_PROCESS" or (spec.execution_mode is None and spec.job_type in self._handlers):
            self._handlers.get(spec.job_type)
            return "IN_PROCESS"
        if spec.execution_mode == "EXTERNAL":
            raise NotSupported(
                "EXTERNAL jobs are not supported by this version - at `$.execution_mode`",
                "a later version brings them; SUBPROCESS runs a command",
                path="$.execution_mode",
            )
        return "SUBPROCESS"


def _check_integers(value: Any, path: str) -> None:
    """JSON knows no limit, but what reads these numbers next does; walked only when there is a long one."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_integers(item, f"{path}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_integers(item, f"{path}[{number}]")
    elif isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise _refused("an integer beyond 64 bits", "send it as a string", path)


def _refused(message: str, hint: str, path: str = "$.payload") -> InvalidParams:
    return InvalidParams(f"{message} - at `{path}`", hint, path=path)
