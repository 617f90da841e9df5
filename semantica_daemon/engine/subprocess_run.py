"""One run of a command. The supervisor spawns, reads and ends the process; its reports become events and an Outcome.

A claim that cannot be started within 30 s (no free process or descriptor) goes back to its queue.
"""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from typing import TypeVar

import structlog

from semantica_daemon import failpoints
from semantica_daemon.engine import parents, results
from semantica_daemon.engine.attempt import Attempt
from semantica_daemon.engine.reporter import storable
from semantica_daemon.engine.results import Result
from semantica_daemon.engine.run_files import gathered_variables
from semantica_daemon.engine.spawn_request import SecretsLost, spawn_request, workspace_of
from semantica_daemon.engine.supervisor_connection import Inbox, RunReport, SupervisorConnection, SupervisorLost
from semantica_daemon.errors import NotSupported
from semantica_daemon.model.outcome import ESCAPED, STOPPED_BEFORE_START, Outcome
from semantica_daemon.processes.orphans import Identity, end_orphans
from semantica_daemon.store.run_transition import Begun
from semantica_daemon.store.writes.report import Line
from semantica_daemon.supervisor.messages import (
    Exited,
    InputRequest,
    InputTaken,
    LeftoversFound,
    Spawned,
    SpawnFailed,
    SpawnRequest,
    Window,
)
from semantica_daemon.wire.run import Error, ErrorClass

log = structlog.get_logger()

START_WITHIN_MS = 30_000
RETRY_AFTER_MS = 1000
ENDS_WITHIN_S = 10
LOST = Outcome(
    error=Error("E_ENGINE_CRASH", "infra", "the supervisor of the daemon's processes ended, and with it this run"),
    interrupted=True,
)
TOO_LATE = Outcome(
    error=Error("E_SPAWN", "infra", f"it did not start within {START_WITHIN_MS // 1000} s, and was ended when it did")
)

GOES_ON = (Spawned, LeftoversFound, InputTaken)  # reports of a run that has not ended

T = TypeVar("T")


class SubprocessRun:
    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._run_id = attempt.claim.run.run_id
        self._job_id = attempt.claim.run.job_id
        self._clock = attempt.dependencies.clock
        self._supervisors = attempt.dependencies.supervisors
        self._supervisor: SupervisorConnection | None = None
        self._inbox: Inbox
        self._end_of_pause = asyncio.Event()
        self._awaits_start = False
        self._is_late = False
        self._was_killed = False
        self._identity = Identity(self._run_id, None, None, None)
        self._token = token_hex(16)
        attach_id = attempt.claim.spec.attach_id
        self._attachment = attempt.dependencies.attachments.find(attach_id) if attach_id else None

    async def run(self) -> Outcome:
        tokens = self._attempt.dependencies.run_tokens
        tokens[self._token] = self._attempt.claim.run
        try:
            return await self._carry_out()
        except BaseException as error:
            await self._until_spawned()
            if await self._end_processes() is ESCAPED:
                log.error("run_failed_in_daemon", job_id=self._job_id, exc_info=error)
                return ESCAPED
            raise
        finally:
            del tokens[self._token]
            if self._attachment is not None:
                self._attachment.end_input()
            if self._supervisor is not None:
                self._supervisor.forget(self._run_id)

    def terminate(self) -> None:
        self._end_of_pause.set()
        if self._supervisor is not None:
            self._supervisor.signal(self._run_id, signal.SIGTERM)

    def kill(self) -> bool:
        """Sends SIGKILL once; later calls only check whether the supervisor still answers."""
        if self._supervisor is None:
            return False
        if self._was_killed:
            self._supervisor.check_alive(self._run_id, self._job_id)
            return False
        self._was_killed = True
        self._supervisor.signal(self._run_id, signal.SIGKILL)
        self._attempt.start_grace_period()
        return True

    def watch_log(self, size: int) -> None:
        if self._supervisor is not None:
            self._supervisor.watch_log(self._run_id, self._job_id, size)

    def note_reader(self, reader: int, offset: int) -> None:
        if self._supervisor is not None:
            self._supervisor.note_reader(self._run_id, reader, offset)

    async def _carry_out(self) -> Outcome:
        claim, settings = self._attempt.claim, self._attempt.dependencies.spawn_settings
        secrets = self._attempt.dependencies.secrets.of(self._job_id)
        try:
            own = await self._variables() if claim.spec.parent_count or claim.spec.gather else {}
            request = spawn_request(claim, settings, secrets, self._token, self._attachment, own)
        except OSError as error:
            return _not_started(SpawnFailed(self._run_id, str(error), "workspace", error.errno or 0, True))
        except SecretsLost as lost:
            return Outcome(error=Error("E_SECRET_LOST", "permanent", str(lost)))
        except NotSupported as refused:
            return Outcome(error=Error("E_SPAWN", "permanent", f"it is not run without its limits: {refused.problem}"))
        if self._attachment is not None and not request.has_input:
            self._attachment.end_input()
        report = await self._spawn(request)
        if report is None:
            return STOPPED_BEFORE_START
        if isinstance(report, SpawnFailed):
            return _not_started(report)
        if isinstance(report, SupervisorLost):
            outcome = await self._end_processes()
            await self._pause()  # so that a supervisor that dies at once is not started again and again
            return outcome
        return await self._until_exit(report, request)

    async def _variables(self) -> dict[str, str]:
        """Those for the results of its parents and for the payloads it has gathered. Raises OSError if a file cannot be
        written."""
        claim = self._attempt.claim
        workspace = workspace_of(claim, self._attempt.dependencies.spawn_settings)
        found = await _in_thread(gathered_variables, claim.payload, workspace) if claim.spec.gather else {}
        return found | await self._parent_variables(workspace) if claim.spec.parent_count else found

    async def _parent_variables(self, workspace: str) -> dict[str, str]:
        found = await self._attempt.read_parents()
        if any(one.truncated for one in found):
            self._attempt.reporter.line(Line("results of its parents are left out: they are larger than 64 MB", "warn"))
        text = parents.document(found, self._attempt.claim.spec.parent_count)
        if parents.is_large(text):
            return await _in_thread(parents.variables, text, workspace)
        return parents.variables(text, workspace)

    async def _spawn(self, request: SpawnRequest) -> RunReport | None:
        """Returns the first report on the run. Requests again while no process or descriptor is free; None if the run
        was stopped before it started."""
        limit = self._clock.after(START_WITHIN_MS, self._start_is_late)
        report = None
        while not self._attempt.is_stopping and (report := await self._request(request)) is not None:
            if not isinstance(report, SpawnFailed) or not report.retryable or self._is_late:
                break
            await self._pause()
            report = None
        limit.cancel()
        return report

    async def _request(self, request: SpawnRequest) -> RunReport | None:
        self._supervisor = self._supervisors.current
        if self._supervisor is None:
            try:
                self._supervisor = await self._supervisors.start()
            except (OSError, RuntimeError) as error:
                number = getattr(error, "errno", None) or 0
                return SpawnFailed(self._run_id, f"no supervisor: {error}", "supervisor", number, True)
            if self._attempt.is_stopping:
                return None
        self._inbox = self._supervisor.spawn(request)
        self._awaits_start = True
        report = await self._inbox.get()
        self._awaits_start = False
        return report

    async def _pause(self) -> None:
        if self._attempt.is_stopping:
            return
        self._end_of_pause.clear()
        timer = self._clock.after(RETRY_AFTER_MS, self._end_of_pause.set)
        await self._end_of_pause.wait()
        timer.cancel()

    def _start_is_late(self) -> None:
        """A supervisor that has not answered yet may be stuck: new runs get another one, and this run must not start
        any more."""
        self._is_late = True
        self._end_of_pause.set()
        if self._awaits_start and self._supervisor is not None:
            self._supervisors.replace(self._supervisor)
            self._supervisor.signal(self._run_id, signal.SIGKILL)
            self._supervisor.check_alive(self._run_id, self._job_id)

    async def _until_exit(self, report: RunReport, request: SpawnRequest) -> Outcome:
        failpoints.hit("after_spawn_before_pid_commit")
        if isinstance(report, Spawned):
            self._record_start(report.pid, report.started_at, request.log, has_ended=False)
            if self._attachment is not None:
                self._attachment.run_started(self._send_input, request.has_input)
        while isinstance(report, GOES_ON):
            report = await self._inbox.get()
            self._handle(report)
        if not isinstance(report, Exited):
            return await self._end_processes()
        if report.pid is not None and report.started_at is not None:
            self._record_start(report.pid, report.started_at, request.log, has_ended=True)
        if self._is_late:
            return TOO_LATE
        self._report_log_loss(report)
        found = await _in_thread(results.read, request.result) if report.has_result else results.NOTHING
        complaint = found.complaint or ("" if report.code == 0 else found.failure_complaint)
        if complaint:
            self._attempt.reporter.line(Line(f"$SEMANTICA_RESULT: {complaint}", "warn"))
        return _outcome(report, found)

    def _handle(self, report: RunReport) -> None:
        """Handles a report of a run that goes on."""
        if isinstance(report, LeftoversFound):
            self._attempt.main_process_ended()
        elif isinstance(report, InputTaken) and self._attachment is not None:
            self._attachment.input_taken(report.is_open)

    def _send_input(self, data: bytes, is_last: bool, window: Window | None) -> None:
        if self._supervisor is not None:
            self._supervisor.send_input(InputRequest(self._run_id, data, is_last, window))

    def _record_start(self, pid: int, started_at: int, log_path: str, has_ended: bool) -> None:
        settings = self._attempt.dependencies.spawn_settings
        self._identity = Identity(self._run_id, pid, started_at, settings.boot_id)
        stored_path = log_path.removeprefix(settings.log_root)
        begun = Begun(self._attempt.claim.run, pid, started_at, settings.boot_id, stored_path)
        self._attempt.record_start(begun, has_ended)

    def _report_log_loss(self, report: Exited) -> None:
        """Emits an event that `job.logs` finds by its payload."""
        payload = {"log_of": self._run_id, "dropped": report.dropped}
        if report.log_error:
            self._attempt.reporter.line(Line(storable(f"its log is not whole: {report.log_error}"), "warn", payload))
        elif report.dropped:
            limit = self._attempt.dependencies.spawn_settings.log_bytes
            line = f"its log keeps {limit} bytes, of the beginning and the end; {report.dropped} between are missing"
            self._attempt.reporter.line(Line(line, "warn", payload))

    async def _until_spawned(self) -> None:
        """After an error. A supervisor that has not answered the request yet would start the process later, when nobody
        looks for it any more; so it gets the signal that ends the run, and its answer is awaited."""
        if self._awaits_start and self._supervisor is not None:
            self._supervisor.signal(self._run_id, signal.SIGKILL)
            self._supervisor.check_alive(self._run_id, self._job_id)
            await self._inbox.get()

    async def _end_processes(self) -> Outcome:
        """Ends the processes without the supervisor. A process that survives SIGKILL is reported, and the job is not
        retried; nor is it if no process can be looked for."""
        try:
            root = self._attempt.dependencies.spawn_settings.cgroups.path
            return ESCAPED if await _in_thread(end_orphans, [self._identity], ENDS_WITHIN_S, root) else LOST
        except OSError as error:
            log.error("run_cannot_be_ended", job_id=self._job_id, exc_info=error)
            return ESCAPED


async def _in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Runs on the loop if no thread can be started: the run must get its end."""
    try:
        return await asyncio.to_thread(function, *arguments)
    except RuntimeError:
        return function(*arguments)


def _outcome(report: Exited, found: Result) -> Outcome:
    if report.code == 0:
        return Outcome(result=found.text, exit_code=0, log_bytes=report.log_size)
    class_: ErrorClass = found.failure_class or "transient"
    after = found.retry_after_ms
    if report.code is not None:
        error = Error("E_EXIT", class_, f"it exited with code {report.code}")
        return Outcome(found.text, error, report.code, retry_after_ms=after)
    name = str(report.signal)
    with suppress(ValueError):
        name = signal.Signals(report.signal or 0).name
    details = {"signal": report.signal, "name": name}
    return Outcome(found.text, Error("E_SIGNAL", class_, f"it was ended by {name}", details), retry_after_ms=after)


def _not_started(report: SpawnFailed) -> Outcome:
    details = {"errno": report.errno, "of": report.part}
    reason = storable(report.message)
    if report.retryable:
        message = f"it could not be started within {START_WITHIN_MS // 1000} s: {reason}"
        return Outcome(error=Error("E_SPAWN", "infra", message, details), unstarted=True)
    return Outcome(error=Error("E_SPAWN", "permanent", reason, details))
