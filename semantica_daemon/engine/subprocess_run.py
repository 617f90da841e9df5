"""One run of a command. The supervisor spawns, reads and ends the process; its messages become events and an Outcome.

A claim that cannot be started within 30 s (no process or descriptor to be had) goes back to its queue.
"""

import asyncio
import re
import signal
from contextlib import suppress
from secrets import token_hex
from typing import Any

import msgspec

from semantica_daemon import environment, failpoints
from semantica_daemon.clock import Timer
from semantica_daemon.engine import results
from semantica_daemon.engine.attempt import Attempt
from semantica_daemon.engine.results import Files, Result
from semantica_daemon.engine.supervisors import Supervisor, Told
from semantica_daemon.model.command import CommandLine
from semantica_daemon.model.outcome import ESCAPED, Outcome
from semantica_daemon.store.database import Command
from semantica_daemon.store.writes.begin import Begun, begin
from semantica_daemon.store.writes.report import Line
from semantica_daemon.supervisor import processes
from semantica_daemon.supervisor.processes import Identity
from semantica_daemon.wire.run import Error, ErrorClass

START_WITHIN_MS = 30_000
ASK_AGAIN_MS = 1000
ALIVE_WITHIN_MS = 5000
NOTHING_WRITTEN = -1
UMASK = 0o022
TRACE = re.compile("[0-9a-f]{32}")
LOST = Outcome(
    error=Error("E_ENGINE_CRASH", "infra", "the supervisor of the daemon's processes ended, and with it this run"),
    interrupted=True,
)
TOO_LATE = Outcome(
    error=Error("E_SPAWN", "infra", f"it did not start within {START_WITHIN_MS // 1000} s, and was ended when it did")
)
NOT_WANTED = Outcome(
    error=Error("E_SPAWN", "infra", "it was asked to stop before it was started"), interrupted=True, unstarted=True
)


class SubprocessRun:
    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._shop = attempt.shop
        self._run_id = attempt.claim.run.run_id
        self._supervisor: Supervisor | None = None
        self._answer: asyncio.Future[Told] | None = None
        self._end: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._wake = asyncio.Event()
        self._slow = False
        self._killed = False
        self._proof: Timer | None = None
        self._token = token_hex(16)
        self._shop.tokens[self._token] = attempt.claim.run

    async def run(self) -> Outcome:
        try:
            return await self._carried_out()
        finally:
            self._shop.tokens.pop(self._token, None)
            if self._supervisor is not None:
                self._supervisor.forget(self._run_id)

    def ask(self) -> None:
        self._wake.set()
        if self._supervisor is not None:
            self._supervisor.end(self._run_id, signal.SIGTERM)

    def insist(self) -> bool:
        """SIGKILL, once; after that it only checks whether the supervisor still answers."""
        if self._supervisor is None or self._killed:
            self._prove_alive()
            return False
        self._killed = True
        self._supervisor.end(self._run_id, signal.SIGKILL)
        self._attempt.give_grace()
        return True

    def watch(self, beyond: int) -> None:
        if self._supervisor is not None:
            self._supervisor.watch(self._run_id, beyond)

    async def _carried_out(self) -> Outcome:
        claim = self._attempt.claim
        command = msgspec.json.decode(claim.payload, type=CommandLine)
        given: dict[str, str] = msgspec.json.decode(claim.env_vars) if claim.env_vars else {}
        secrets = self._shop.secrets.of(claim.run.job_id)
        if lost := [name for name in given if environment.is_secret(name) and name not in secrets]:
            return _secret_lost(lost)
        given |= secrets
        files = results.files(self._shop.housing.workspaces, claim.run.job_id, claim.run_count)
        told = await self._started(_order(self._attempt, command, self._environment(given, files), files))
        if told is None:
            return NOT_WANTED
        if told["op"] == "lost":
            outcome = await _end_orphans(Identity(self._run_id, None, None, None))
            await self._pause()  # a supervisor that cannot live must not be tried again and again at once
            return outcome
        if told["op"] == "refused":
            return _not_started(told)
        return await self._until_over(told, files)

    async def _started(self, order: dict[str, Any]) -> Told | None:
        """The supervisor's word on it. What is only short of processes or descriptors is asked for again; None when
        nobody wants it any more."""
        limit = self._shop.clock.after(START_WITHIN_MS, self._too_slow)
        told = None
        while not self._attempt.stopping and (told := await self._asked(order)) is not None:
            if told["op"] != "refused" or not told["again"] or self._slow:
                break
            await self._pause()
            told = None
        limit.cancel()
        return told

    async def _asked(self, order: dict[str, Any]) -> Told | None:
        try:
            self._supervisor = await self._shop.supervisors.get()
        except OSError as error:
            refused = {"op": "refused", "again": True, "errno": error.errno, "of": "supervisor"}
            return {**refused, "message": f"no supervisor: {error}"}
        if self._attempt.stopping:
            return None
        self._answer = asyncio.get_running_loop().create_future()
        self._supervisor.start(order, self._told)
        return await self._answer

    async def _pause(self) -> None:
        self._wake.clear()
        if self._attempt.stopping:
            return
        timer: Timer = self._shop.clock.after(ASK_AGAIN_MS, self._wake.set)
        await self._wake.wait()
        timer.cancel()

    def _too_slow(self) -> None:
        """Whatever the supervisor is stuck with, the next run gets another one; this one must not begin any more."""
        self._slow = True
        self._wake.set()
        if self._supervisor is not None and self._answer is not None and not self._answer.done():
            self._shop.supervisors.replace(self._supervisor)
            self._supervisor.end(self._run_id, signal.SIGKILL)
            self._prove_alive()

    def _prove_alive(self) -> None:
        """A supervisor that lives answers this at once; one that is stopped or stuck holds up every run it has."""
        if self._supervisor is not None and self._proof is None:
            self._proof = self._shop.clock.after(ALIVE_WITHIN_MS, self._supervisor.kill)
            self._supervisor.watch(self._run_id, NOTHING_WRITTEN)

    def _told(self, told: Told) -> None:
        if self._proof is not None:
            self._proof.cancel()
            self._proof = None
        if told["op"] == "output":
            self._shop.nudge(self._attempt.claim.run.job_id)
        elif told["op"] == "left":
            self._attempt.winding_down()
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(told)
        elif not self._end.done():
            self._end.set_result(told)

    async def _until_over(self, started: Told, files: Files) -> Outcome:
        failpoints.hit("after_spawn_before_pid_commit")
        boot_id = self._shop.housing.boot_id
        begun = Begun(self._attempt.claim.run, started["pid"], started["started_at"], boot_id, files.log)
        self._shop.commands.submit(Command(begin, begun), must_commit=True)
        self._attempt.begun()
        told = await self._end
        if told["op"] == "lost":
            identity = Identity(self._run_id, started["pid"], started["started_at"], boot_id)
            return await _end_orphans(identity)
        if self._slow:
            return TOO_LATE
        self._complain(told)
        found = await asyncio.to_thread(results.read, files.result) if told["result"] else results.NOTHING
        if found.complaint:
            self._attempt.reporter.line(Line(f"$SEMANTICA_RESULT: {found.complaint}", "warn"))
        return _outcome(told, found)

    def _complain(self, told: Told) -> None:
        """The payload is what job.logs knows it by."""
        limit, lost = self._shop.housing.log_bytes, {"log_of": self._run_id, "dropped": told["dropped"]}
        if told["trouble"]:
            self._attempt.reporter.line(Line(f"its log is not whole: {told['trouble']}", "warn", lost))
        elif told["dropped"]:
            line = f"its log is cut at {limit} bytes; {told['dropped']} more came"
            self._attempt.reporter.line(Line(line, "warn", lost))

    def _environment(self, given: dict[str, str], files: Files) -> dict[str, str]:
        claim, housing = self._attempt.claim, self._shop.housing
        env = housing.environment | {name: given[name] for name in given if not environment.is_ours(name)}
        env |= {
            "SEMANTICA_SOCKET": housing.socket,
            "SEMANTICA_JOB_ID": claim.run.job_id,
            "SEMANTICA_RUN_ID": claim.run.run_id,
            "SEMANTICA_RUN_TOKEN": self._token,
            "SEMANTICA_ATTEMPT": str(claim.run.attempt),
            "SEMANTICA_WORKSPACE": files.workspace,
            "SEMANTICA_OUTPUT": files.output,
            "SEMANTICA_RESULT": files.result,
        }
        if claim.trace_id and TRACE.fullmatch(claim.trace_id):
            env["TRACEPARENT"] = f"00-{claim.trace_id}-{token_hex(8)}-01"
        return env


def _order(attempt: Attempt, command: CommandLine, env: dict[str, str], files: Files) -> dict[str, Any]:
    """The fields of `supervisor.order.Order`."""
    return {
        "run": attempt.claim.run.run_id,
        "argv": command.argv,
        "cwd": command.cwd or attempt.shop.housing.home,
        "env": env,
        "umask": UMASK if command.umask is None else command.umask,
        "stdin": command.stdin,
        "leftovers": attempt.claim.leftovers,
        "log_bytes": attempt.shop.housing.log_bytes,
        **msgspec.structs.asdict(files),
    }


def _outcome(told: Told, found: Result) -> Outcome:
    code = told.get("code")
    if code == 0:
        return Outcome(result=found.text, exit_code=0)
    class_: ErrorClass = found.failure_class or "transient"
    if code is not None:
        return Outcome(found.text, Error("E_EXIT", class_, f"it exited with code {code}"), code)
    number, name = told["signal"], str(told["signal"])
    with suppress(ValueError):
        name = signal.Signals(number).name
    return Outcome(found.text, Error("E_SIGNAL", class_, f"it was ended by {name}", {"signal": number, "name": name}))


def _not_started(told: Told) -> Outcome:
    details = {"errno": told["errno"], "of": told["of"]}
    if told["again"]:
        message = f"it could not be started within {START_WITHIN_MS // 1000} s: {told['message']}"
        return Outcome(error=Error("E_SPAWN", "infra", message, details), unstarted=True)
    return Outcome(error=Error("E_SPAWN", "permanent", told["message"], details))


def _secret_lost(names: list[str]) -> Outcome:
    message = f"the daemon was restarted and no longer knows {', '.join(sorted(names))}: hand the job in again"
    return Outcome(error=Error("E_SECRET_LOST", "permanent", message))


async def _end_orphans(identity: Identity) -> Outcome:
    """What outlasts SIGKILL is told of, and not run again beside it."""
    if await asyncio.to_thread(processes.end_orphans, [identity]):
        return ESCAPED
    return LOST
