"""The client: calls, jobs and events over one connection, one call at a time. Not for several threads at once."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator

from semantica_daemon import paths as locations
from semantica_daemon.client.connect import RETRY_EVERY_S, attempts, connect_or_start
from semantica_daemon.client.connection import NO_WAKEUP, Connection
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.json_types import Any, Json
from semantica_daemon.client.results import Ack, CancelResult, Event, Job
from semantica_daemon.client.subscription import Subscription, events_of
from semantica_daemon.environment import environment_to_send

BACK_WITHIN_S = 5.0
USUAL_WAIT_MS = 8000
LONG_WAIT_MS = 600_000
LONGEST_WAIT_MS = 86_400_000
EVENTS_PAGE = 1000
WAITING_METHODS = ("job.wait", "job.logs")  # their timeout_ms is how long the call waits, not a job's timeout
UNLIMITED_METHODS = ("job.input",)  # answered when a job reads its stdin
WAITING_STATES = ("QUEUED", "SCHEDULED")
LIVE_STATES = ("RUNNING", *WAITING_STATES)
ENDED_STATES = ("DONE", "FAILED", "CANCELLED", "SUPERSEDED", "SKIPPED_TTL", "SKIPPED_DEADLINE")
END_EVENTS = tuple(f"job.{state.lower()}" for state in ENDED_STATES)


class Client:
    """`Client()` connects to this user's daemon and starts it if there is none; `with` closes the connection.

    >>> with Client() as client:
    ...     client.run(["make", "test"])["exit_code"]
    """

    def __init__(
        self,
        paths: locations.Paths | None = None,
        autostart: bool = True,
        report: Callable[[str], None] = lambda _: None,
        wakeup: int = NO_WAKEUP,
    ) -> None:
        """`report` gets a sentence when the daemon is started or is late; `wakeup`: see Connection."""
        self._paths = locations.find(os.environ) if paths is None else paths
        self._report = report
        self._wakeup = wakeup
        self._number = 0
        self._connect(autostart)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def _connect(self, autostart: bool) -> None:
        connected = connect_or_start(self._paths, start=autostart, report=self._report)
        self._connection = Connection(connected, self._report, wakeup=self._wakeup)
        self._events: dict[str, deque[Event]] = {}
        self._callbacks: dict[str, Callable[[Event], None]] = {}

    # Calls

    def call(self, method: str, /, **params: Any) -> Any:
        """The result; raises CallRefused or ConnectionLost."""
        self._number += 1
        self._connection.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        wait_ms = params.get("timeout_ms" if method in WAITING_METHODS else "wait_ms")
        longest = min(max(USUAL_WAIT_MS, wait_ms), LONGEST_WAIT_MS) if isinstance(wait_ms, int) else USUAL_WAIT_MS
        late_at = None if method in UNLIMITED_METHODS else time.monotonic() + longest / 1000
        while True:
            message = self._connection.receive(late_at)
            if "method" in message:
                self._keep(message)
            elif message.get("id") in (self._number, None):  # null: the daemon could not read the id
                return result(message)

    def query(self, method: str, /, **params: Any) -> Any:
        """A call that changes nothing: when the daemon restarts meanwhile, the call is made again."""
        try:
            return self.call(method, **params)
        except ConnectionLost as lost:
            self._report(f"{lost}; waiting for it to come back")
            for _ in attempts(BACK_WITHIN_S, RETRY_EVERY_S):
                self.close()
                try:
                    self._connect(autostart=False)
                    return self.call(method, **params)
                except (NoDaemon, ConnectionLost):  # a daemon that is stopping may accept and close a connection
                    continue
            raise

    # Jobs

    def enqueue(self, job_type: str, payload: Json | None = None, **spec: Any) -> Ack:
        """Adds a job; `spec` has fields of JobSpec, see docs/protocol.md."""
        ack: Ack = self.call("job.enqueue", job_type=job_type, payload=payload or {}, **spec)
        return ack

    def add(self, argv: list[str], cwd: str | None = None, **spec: Any) -> Ack:
        """Adds a command as a job, with our environment."""
        return self.enqueue(**command_spec(argv, cwd, spec))

    def run(self, argv: list[str], cwd: str | None = None, **spec: Any) -> Job:
        """Runs a command as a job, with our environment; returns the finished job with its runs."""
        return self.wait(self.add(argv, cwd, **spec)["job_id"])

    def get(self, job_id: str) -> Job:
        job: Job = self.query("job.get", job_id=job_id)
        return job

    def cancel(self, job_id: str, wait: float = 0) -> CancelResult:
        """Cancels a job, and waits up to `wait` seconds for the end of its run."""
        done: CancelResult = self.call("job.cancel", job_id=job_id, wait_ms=round(wait * 1000))
        return done

    def wait(self, job_id: str, timeout: float | None = None) -> Job:
        """The job, once it has ended; raises TimeoutError after `timeout` seconds."""
        waited = self.wait_until(job_id, None if timeout is None else time.monotonic() + timeout)
        job: Job = waited["job"]
        if not waited["finished"]:
            raise TimeoutError(f"job {job_id} is still {job['state']}")
        return job

    def wait_until(self, job_id: str, until: float | None) -> Json:
        """The result of job.wait when the job has ended, or at `until` (monotonic seconds)."""
        while True:
            left = LONG_WAIT_MS if until is None else round((until - time.monotonic()) * 1000)
            waited: Json = self.query("job.wait", job_id=job_id, timeout_ms=min(max(0, left), LONG_WAIT_MS))
            if waited["finished"] or (until is not None and time.monotonic() >= until):
                return waited

    def logs(self, job_id: str) -> Iterator[tuple[str, bytes]]:
        """Yields (stream, bytes) as the job writes them, run after run, until it has ended."""
        from semantica_daemon.client import output  # noqa: PLC0415

        for reply in output.replies(self, job_id):
            yield from output.pieces(reply)

    # Events

    def follow(self, job_id: str) -> Iterator[Event]:
        """Yields the events of a job, from its first to its end."""
        if self.get(job_id)["state"] in ENDED_STATES:  # its last event may be gone, so it is not waited for
            since = 0
            while (page := self.query("event.list", job_id=job_id, since=since, limit=EVENTS_PAGE))["events"]:
                yield from page["events"]
                since = page["next_sequence"]
            return
        with self.subscribe(job_id=job_id, since=0) as events:
            for event in events:
                yield event
                if event["event_type"] in END_EVENTS:
                    return

    def subscribe(self, **params: Any) -> Subscription:
        """Events from now on, or `since` a sequence. Other calls may be made between two events."""
        name = self.call("event.subscribe", **params)["subscription_id"]
        events = self._events.setdefault(name, deque())
        return Subscription(events, lambda: self._keep(self._connection.receive(None)), lambda: self._unsubscribe(name))

    def listen(self, callback: Callable[[Event], None], **params: Any) -> None:
        """Calls `callback` with each event that another call receives while it waits, until the connection ends."""
        name = self.call("event.subscribe", **params)["subscription_id"]
        for event in self._events.pop(name, ()):
            callback(event)
        self._callbacks[name] = callback

    def _unsubscribe(self, subscription: str) -> None:
        self.call("event.unsubscribe", subscription_id=subscription)
        self._events.pop(subscription, None)

    def _keep(self, message: Json) -> None:
        name = (message.get("params") or {}).get("subscription_id")
        if name in self._callbacks:
            for event in events_of(message):
                self._callbacks[name](event)
        elif isinstance(name, str):
            self._events.setdefault(name, deque()).extend(events_of(message))


def command_spec(argv: list[str], cwd: str | None, spec: Json) -> Json:
    """The JobSpec of a command with our environment; `spec` has further fields."""
    usual = {"job_type": os.path.basename(argv[0])[:128] or "command", "execution_mode": "SUBPROCESS"}
    payload, environment = {"argv": argv, "cwd": cwd or os.getcwd()}, environment_to_send(os.environ, cwd)
    return {**usual, "payload": payload, "environment": environment, **spec}


def result(message: Json) -> Any:
    """The result of a reply; raises CallRefused when it is an error."""
    error = message.get("error")
    if error is None:
        return message.get("result")
    raise CallRefused(error["code"], error["message"], error.get("data"))
