"""The rule that turns a JobSpec into a job that can be stored: valid, runnable by this daemon, and within the size
limits.

It is pure: the handlers and their payload types, the inherited environment and the system's limit are values. Callers'
specs are admitted before their command is queued; specs made from a template, inside the transaction.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon import environment
from semantica_daemon.environment import REDACTED
from semantica_daemon.errors import (
    InvalidParams,
    NoHandler,
    PayloadRefused,
    Refusal,
    did_you_mean,
    located,
)
from semantica_daemon.model import caller_environment
from semantica_daemon.model.caller_environment import CallerEnvironment, StoredEnvironment
from semantica_daemon.model.command import POINTER_BYTES, check_length, check_variables, command_line, size_of
from semantica_daemon.model.job import MAX_PAYLOAD_BYTES, check, redacted, spec_hash
from semantica_daemon.model.nesting import MOST, too_deep
from semantica_daemon.model.run_limits import check_limits
from semantica_daemon.wire.job import Bytes, EnqueueManyParams, JobSpec

DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
LONG_NUMBER = b"0" * 19
LARGEST = 2**63
NOT_FOR_WORKERS = "the environment is not used: an external worker has its own"
FOR_COMMANDS = "the environment variables are not used: a handler has the daemon's own environment"
INTO_A_FILE = "put it into a file and name the file"
MOST_NAMES = 4096  # of variables, whose rating is remembered
OWN_VARIABLES_BYTES = 8192  # left for the variables that every run is given
MOST_PARENTS = 10_000  # of all jobs of a call
LARGEST_PARENT_RESULT = 65_536  # bytes in a variable of a command; a larger result is in a file

# The key of a gate that waits for the end of a job, in a certain state or in any.
END_OF_JOB = re.compile(r"(?:semantica:event:)?job:([0-9a-f-]{36})\Z")

Decoder = msgspec.json.Decoder[Any]


class Origin(Struct, frozen=True, gc=False):
    """What a job was made from. `awaits_turn`: an earlier job of the schedule has to end first. `retry_of`: the job
    that it repeats."""

    template_id: str | None = None
    schedule_id: str | None = None
    awaits_turn: bool = False
    retry_of: str | None = None


NO_ORIGIN = Origin()


class Gate(Struct, frozen=True, gc=False):
    """An event that must come before a job may start. `is_open`: it has come already."""

    key: str
    value: str = ""
    is_open: bool = False

    @property
    def awaited_job(self) -> str | None:
        """The id of the job whose end the event is."""
        found = END_OF_JOB.match(self.key)
        return found[1] if found else None


class AdmittedJob(Struct, frozen=True, gc=False):
    """A spec that was checked, with its payload and variables as they are stored, and the secrets among the variables,
    which are kept in memory only. `env`: the variables set by name. `environment`: the one that the caller handed over.
    `mode`: as the column has it, so None is EXTERNAL; a spec that names a template is not checked yet, and has an empty
    one. `gates` and `parents` are known inside the
    transaction that stores the job."""

    spec: JobSpec
    mode: str | None
    payload: str
    spec_hash: str | None
    env: str | None = None
    environment: StoredEnvironment | None = None
    secrets: dict[str, str] | None = None
    warnings: tuple[str, ...] = ()
    origin: Origin = NO_ORIGIN
    gates: tuple[Gate, ...] = ()
    parents: tuple[str, ...] = ()

    @property
    def unmet(self) -> int:
        """The number of gates that must open before the job may start."""
        return sum(not gate.is_open for gate in self.gates)


class Admission:
    """`handlers`: the decoder of the payload of each handler's job_type, None when any object will do. `inherited`:
    the part of the daemon's environment that a run is given. `arg_max`: SC_ARG_MAX of the system. `secret_words`: those
    that mark a variable as secret besides the usual ones. `controllers`: of cgroups, for the limits of a run."""

    def __init__(
        self,
        handlers: Mapping[str, Decoder | None],
        inherited: dict[str, str],
        arg_max: int,
        secret_words: Iterable[str] = (),
        controllers: Collection[str] = (),
    ) -> None:
        self._controllers = controllers
        self._handlers = handlers
        self._inherited = {name: size_of(f"{name}={value}") + POINTER_BYTES for name, value in inherited.items()}
        self._inherited_bytes = sum(self._inherited.values())
        self._longest = arg_max - OWN_VARIABLES_BYTES
        words = (*environment.SECRET_WORDS, *map(str.upper, secret_words))
        self._is_secret = lru_cache(MOST_NAMES)(partial(environment.is_secret, words=words))

    def admit(self, spec: JobSpec, shared: CallerEnvironment | None = None) -> AdmittedJob:
        """A spec that names a template is checked later, after it was merged with the template. `shared`: the
        environment of a command that has none of its own."""
        if spec.template_id is not None:
            return AdmittedJob(spec, "", "", self._spec_hash(spec))
        check(spec)
        mode = self._mode(spec)
        payload = _encoded(spec.payload) if spec.payload else "{}"
        admitted = AdmittedJob(spec, mode, payload, self._spec_hash(spec))
        if spec.limits is not None:
            check_limits(spec.limits, mode, self._controllers)
        if mode is None:
            return self._external(admitted)
        if mode == "IN_PROCESS":
            if spec.retry_on is not None:
                hint = "leave it out; the handler raises Permanent for a failure that must not be retried"
                raise InvalidParams("a handler has no exit codes", hint, path="$.retry_on")
            self._check_payload(spec.job_type, payload)
            has_variables = spec.env_vars or spec.environment
            return msgspec.structs.replace(admitted, warnings=(FOR_COMMANDS,)) if has_variables else admitted
        return self._command(admitted, shared)

    def _external(self, job: AdmittedJob) -> AdmittedJob:
        """A job for workers: any payload, no slot, and of the variables only those that are set by name."""
        spec = job.spec
        if spec.slots > 1:
            raise InvalidParams("an external worker takes no slot", "leave it out", path="$.slots")
        warnings = (NOT_FOR_WORKERS,) if spec.environment else ()
        job = msgspec.structs.replace(job, spec=msgspec.structs.replace(spec, slots=0), warnings=warnings)
        if spec.env_vars:
            check_variables(spec.env_vars)
            return self._with_variables(job, spec.env_vars)
        return job

    def _spec_hash(self, spec: JobSpec) -> str | None:
        is_compared = spec.idempotency_key and spec.idempotency_match == "spec"
        return spec_hash(spec, self._is_secret) if is_compared else None

    def _command(self, job: AdmittedJob, shared: CallerEnvironment | None) -> AdmittedJob:
        """Checks everything except whether the command exists, which is known only when it starts."""
        env = job.spec.env_vars or {}
        if "argv" not in job.spec.payload and job.spec.execution_mode is None:
            raise no_handler(job.spec.job_type, self._handlers)  # a mistyped name is likelier than a command
        check_variables(env)
        if job.spec.environment is not None:
            shared = caller_environment.prepared(job.spec.environment, self._is_secret)
        if shared is not None:
            check_length(command_line(job.spec.payload), env, self._longest_of(job.spec), shared.size_beneath(env))
            job = msgspec.structs.replace(job, environment=shared.stored, secrets=shared.secrets or None)
        else:
            inherited = self._inherited_bytes - sum(self._inherited.get(name, 0) for name in env)
            check_length(command_line(job.spec.payload), env, self._longest_of(job.spec), inherited)
        return self._with_variables(job, env) if env else job

    def _with_variables(self, job: AdmittedJob, env: dict[str, str]) -> AdmittedJob:
        refused = tuple(f"variable {name} is not given to the job" for name in env if environment.is_reserved(name))
        # A value that is what others are shown of a secret is kept like a secret, so that a run knows which are lost.
        is_kept = {name: value for name, value in env.items() if self._is_secret(name) or value == REDACTED}
        secrets = {**(job.secrets or {}), **is_kept}
        stored = msgspec.json.encode(redacted(env, self._is_secret)).decode()
        return msgspec.structs.replace(job, env=stored, secrets=secrets or None, warnings=job.warnings + refused)

    def _longest_of(self, spec: JobSpec) -> int:
        """The longest command line and environment. A job with parents is also given their results."""
        has_parents = spec.parents is not None or spec.parent_job_id is not None
        return self._longest - LARGEST_PARENT_RESULT if has_parents else self._longest

    def _check_payload(self, job_type: str, payload: str) -> None:
        decoder = self._handlers[job_type]
        if decoder is None:
            return
        try:
            decoder.decode(payload)
        except msgspec.ValidationError as error:
            problem, path = located(str(error), "$.payload")
            raise PayloadRefused(problem, f"the handler of {job_type} defines its payload", path=path) from None

    def admit_all(self, params: EnqueueManyParams) -> list[AdmittedJob]:
        admitted: list[AdmittedJob] = []
        if sum(len(spec.parents) for spec in params.jobs if spec.parents is not None) > MOST_PARENTS:
            problem = f"more than {MOST_PARENTS} parents in one call"
            raise InvalidParams(problem, "enqueue the jobs in several calls", path="$.jobs")
        given = params.environment
        shared = None if given is None else caller_environment.prepared(given, self._is_secret)
        for number, spec in enumerate(params.jobs):
            try:
                admitted.append(self.admit(_with_environment(spec, given), shared))
            except Refusal as refused:
                refused.moved("$", f"$.jobs[{number}]")
                raise
        return admitted

    def _mode(self, spec: JobSpec) -> str | None:
        """The requested mode, None for EXTERNAL; by default IN_PROCESS if there is a handler for the job type, else
        SUBPROCESS."""
        if spec.job_type in self._handlers and spec.execution_mode in (None, "IN_PROCESS"):
            return "IN_PROCESS"
        if spec.execution_mode == "IN_PROCESS":
            raise no_handler(spec.job_type, self._handlers)
        return None if spec.execution_mode == "EXTERNAL" else "SUBPROCESS"


def _with_environment(spec: JobSpec, given: dict[str, str | Bytes] | None) -> JobSpec:
    """A spec that names a template takes the environment of its call along, since it is checked by itself later."""
    if given is None or spec.template_id is None or spec.environment is not None:
        return spec
    return msgspec.structs.replace(spec, environment=given)


def no_handler(job_type: str, known: Iterable[str]) -> NoHandler:
    come_from = "handlers come from [handlers] in the config; `semantica restart` makes the daemon read new ones"
    hint = did_you_mean(job_type, known) or come_from
    return NoHandler(f"no handler is registered for job type {job_type}", hint, path="$.job_type")


def _encoded(payload: dict[str, Any]) -> str:
    """The payload as it is stored, if it is within the limits."""
    try:
        text = msgspec.json.encode(payload)
    except RecursionError:
        raise InvalidParams("the payload is nested too deep", INTO_A_FILE, path="$.payload") from None
    if len(text) > MAX_PAYLOAD_BYTES:
        problem = f"the payload has {len(text)} bytes, at most {MAX_PAYLOAD_BYTES} are taken"
        raise InvalidParams(problem, INTO_A_FILE, path="$.payload")
    if len(text) > MOST and too_deep(text):
        raise InvalidParams(f"the payload is nested deeper than {MOST} levels", INTO_A_FILE, path="$.payload")
    if len(text) >= len(LONG_NUMBER) and LONG_NUMBER in text.translate(DIGITS):
        _check_integers(payload, "$.payload")
    return text.decode()


def _check_integers(value: Any, path: str) -> None:
    """JSON has no limit on integers, but SQLite and most readers do; called only when there is a long one."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_integers(item, f"{path}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_integers(item, f"{path}[{number}]")
    elif isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise InvalidParams("an integer beyond 64 bits", "send it as a string", path=path)
