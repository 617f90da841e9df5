"""A small synchronous client: one connection, one call at a time, events in between. Not for several threads at once.

`output` knows how a job's log is followed; the command line is built on both.
"""

import json
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator

from semantica_daemon import places
from semantica_daemon.client.autostart import LOOK_EVERY_S, NoDaemon, reach
from semantica_daemon.client.shapes import Any, Json
from semantica_daemon.client.surroundings import variables

CHUNK = 262_144
BACK_WITHIN_S = 5.0
LARGEST_CALL = 16 * 1024 * 1024
# How long a daemon may think, beyond what the call itself asks it to wait: longer means that it hangs.
PATIENCE_S = 60.0
USUAL_WAIT_MS = 8000
LONG_WAIT_MS = 600_000
LONGEST_WAIT_MS = 86_400_000
WAITING = ("job.wait", "job.logs")  # whose timeout_ms is their own, and not a job's
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
SO_NOSIGPIPE = 0x1022  # of macOS, which has no MSG_NOSIGNAL
__all__ = ["CallRefused", "Client", "ConnectionLost", "NoDaemon"]
ENDS = ("DONE", "FAILED", "CANCELLED", "SUPERSEDED", "SKIPPED_TTL", "SKIPPED_DEADLINE")


class CallRefused(Exception):
    """The daemon's answer is an error: `code` (a number), `message`, `data` (its stable code, a hint, retryable …)."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data: Json = data or {}


class ConnectionLost(Exception):
    """The daemon hung up, or says nothing any more: what was asked last may or may not have happened."""


class Client:
    """`Client()` finds the daemon of this user, starting it when there is none; `with` closes the connection.

    >>> with Client() as client:
    ...     client.run(["make", "test"])["exit_code"]
    """

    def __init__(
        self, where: places.Places | None = None, autostart: bool = True, say: Callable[[str], None] | None = None
    ) -> None:
        self._where = places.find(os.environ) if where is None else where
        self._say = say or (lambda _: None)
        self._silence_at = 0.0
        self._number = 0
        self._reach(autostart)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def _reach(self, autostart: bool) -> None:
        self._socket = reach(self._where, start=autostart, say=self._say)
        if sys.platform == "darwin":
            self._socket.setsockopt(socket.SOL_SOCKET, SO_NOSIGPIPE, 1)
        self._received = bytearray()
        self._searched = 0
        self._told: dict[str, deque[Json]] = {}

    # Calls

    def call(self, method: str, /, **params: Any) -> Any:
        """The result, or CallRefused."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        asked = params.get("timeout_ms" if method in WAITING else "wait_ms")
        longest = min(max(USUAL_WAIT_MS, asked), LONGEST_WAIT_MS) if isinstance(asked, int) else USUAL_WAIT_MS
        self._silence_at = time.monotonic() + longest / 1000
        until = self._silence_at + PATIENCE_S
        while True:
            message = self._receive(until)
            if "method" in message:
                self._keep(message)
            elif message.get("id") in (self._number, None):  # null: it could not even read the id
                return _result(message)

    def ask(self, method: str, /, **params: Any) -> Any:
        """A call that changes nothing: when the daemon is restarted meanwhile, the new one is asked."""
        until = None
        while True:
            try:
                return self.call(method, **params)
            except ConnectionLost as lost:
                if until is None:
                    self._say(f"{lost}; waiting for it to come back")
                    until = time.monotonic() + BACK_WITHIN_S
                self._come_back(lost, until)

    def _come_back(self, lost: ConnectionLost, until: float) -> None:
        """A daemon that is just dying may take a connection and break it at once: the next try finds another."""
        self._socket.close()
        while time.monotonic() < until:
            time.sleep(LOOK_EVERY_S)
            try:
                return self._reach(autostart=False)
            except NoDaemon:
                continue
        raise lost

    def enqueue(self, job_type: str, payload: Json | None = None, **spec: Any) -> Json:
        """Take a job; the Ack."""
        ack: Json = self.call("job.enqueue", job_type=job_type, payload=payload or {}, **spec)
        return ack

    def run(self, argv: list[str], cwd: str | None = None, **spec: Any) -> Json:
        """A command as a job, in the queue like any other, with what of our environment commands need; the finished
        job, with its runs."""
        usual = {"job_type": os.path.basename(argv[0])[:128] or "command", "env_vars": variables(os.environ)}
        command = {"payload": {"argv": argv, "cwd": cwd or os.getcwd()}, "execution_mode": "SUBPROCESS"}
        return self.wait(self.enqueue(**{**usual, **command, **spec})["job_id"])

    def wait(self, job_id: str, timeout: float | None = None) -> Json:
        """The job, once it has ended; TimeoutError after so many seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LONG_WAIT_MS if until is None else max(0, round((until - time.monotonic()) * 1000))
            waited = self.ask("job.wait", job_id=job_id, timeout_ms=min(left, LONG_WAIT_MS))
            if waited["finished"]:
                job: Json = waited["job"]
                return job
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"job {job_id} is still {waited['job']['state']}")

    def logs(self, job_id: str) -> Iterator[tuple[str, bytes]]:
        """(stream, bytes) as the job writes them, run after run, until it has ended."""
        from semantica_daemon.client import output  # noqa: PLC0415

        for reply in output.replies(self, job_id):
            yield from output.pieces(reply)

    # Events

    def subscribe(self, **params: Any) -> "Subscription":
        """Events from now on, or `since` a sequence. Other calls may be made between two events."""
        return Subscription(self, self.call("event.subscribe", **params)["subscription_id"])

    def told(self, subscription: str) -> Json:
        """The next notification of that subscription, waiting for it."""
        while not (waiting := self._told.get(subscription)):
            self._keep(self._receive(None))
        return waiting.popleft()

    def forget(self, subscription: str) -> None:
        """What came for it and was not asked for."""
        self._told.pop(subscription, None)

    def _keep(self, message: Json) -> None:
        name = (message.get("params") or {}).get("subscription_id")
        if isinstance(name, str):
            self._told.setdefault(name, deque()).append(message)

    # The wire

    def _send(self, message: Json) -> None:
        line = _encoded(message) + b"\n"
        if len(line) > LARGEST_CALL:
            hint = "put what is long into a file and name the file"
            raise CallRefused(
                -32600, f"the call has {len(line)} bytes, the daemon takes {LARGEST_CALL}", {"hint": hint}
            )
        try:
            self._socket.settimeout(PATIENCE_S)
            self._socket.sendall(line, NO_SIGNAL)
        except OSError as error:
            raise ConnectionLost(f"the daemon does not take the call: {error}") from None

    def _receive(self, until: float | None) -> Json:
        """The next message, waiting for it until then."""
        while (end := self._received.find(b"\n", self._searched)) < 0:
            self._searched = len(self._received)
            self._received += self._chunk(until)
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched = 0
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise ConnectionLost("what answers at the socket is no Semantica daemon")
        return message

    def _chunk(self, until: float | None) -> bytes:
        try:
            chunk = self._patiently(until)
        except TimeoutError:
            raise ConnectionLost("the daemon does not answer; `semantica doctor` looks what is wrong") from None
        except OSError as error:
            raise ConnectionLost(f"the connection to the daemon broke: {error}") from None
        if not chunk:
            raise ConnectionLost("the daemon has hung up")
        return chunk

    def _patiently(self, until: float | None) -> bytes:
        """Nobody should have to wonder why nothing happens: a daemon that is late is told of once."""
        if until is None:
            self._socket.settimeout(None)
            return self._socket.recv(CHUNK)
        try:
            self._socket.settimeout(max(0.001, min(self._silence_at, until) - time.monotonic()))
            return self._socket.recv(CHUNK)
        except TimeoutError:
            if self._silence_at < until:
                self._silence_at = until
                self._say(f"the daemon has not answered yet; waiting for up to {PATIENCE_S:.0f} s more")
        self._socket.settimeout(max(0.001, until - time.monotonic()))
        return self._socket.recv(CHUNK)


class Subscription:
    """An iterator of events until it is closed. What is gone for good comes as an event `stream.gap`, whose payload has
    from, to and epoch."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self._events: deque[Json] = deque()

    def __iter__(self) -> "Subscription":
        return self

    def __next__(self) -> Json:
        while not self._events:
            self._events.extend(_events_in(self._client.told(self._name)))
        return self._events.popleft()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The daemon sends no more of it."""
        try:
            self._client.call("event.unsubscribe", subscription_id=self._name)
        except ConnectionLost:
            return
        self._client.forget(self._name)


def _encoded(message: Json) -> bytes:
    """As short as it gets; what is no UTF-8 has to be written the long way."""
    try:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(message).encode()


def _result(message: Json) -> Any:
    error = message.get("error")
    if error is None:
        return message.get("result")
    raise CallRefused(error["code"], error["message"], error.get("data"))


def _events_in(told: Json) -> Iterator[Json]:
    params = told["params"]
    if told["method"] == "event":
        yield from params["events"]
    elif told["method"] == "stream.gap":
        yield gap({name: params[name] for name in ("from", "to", "epoch")})


def gap(missed: Json) -> Json:
    """What will never be seen, as an event of its own."""
    message = "another stream than the one that was asked for"
    if missed["to"] > missed["from"]:
        message = f"events {missed['from'] + 1} to {missed['to']} are gone"
    nothing = {"job_sequence": None, "job_id": None, "timestamp_at": None, "level": "warn"}
    return {"sequence": missed["to"], "event_type": "stream.gap", "message": message, "payload": missed, **nothing}
