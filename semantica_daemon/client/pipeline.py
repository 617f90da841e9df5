"""Many calls in flight over one connection, beside one subscription, for a command that adds and follows thousands of
jobs. `client` makes one call at a time.

When the daemon restarts, or was killed and is started here, the pipeline connects again, subscribes from where it was
and repeats the calls that have no reply. So only calls that may be repeated are made here.
"""

import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from semantica_daemon.client.client import result
from semantica_daemon.client.connect import RETRY_EVERY_S, Report, attempts, connect_or_start
from semantica_daemon.client.connection import CHUNK, CLOSED, NO_SIGNAL, NO_WAKEUP, PATIENCE_S, decoded, line_of
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.json_types import Any, Json
from semantica_daemon.client.results import Event
from semantica_daemon.paths import Paths

BACK_WITHIN_S = 30.0
LATE_S = 8.0
# Refusals of a daemon that is about to close the connection: the call is made again at the next one.
MADE_AGAIN = ("E_STOPPING",)

OnResult = Callable[[Any], None]
OnRefusal = Callable[[CallRefused], None]


class Call:
    def __init__(self, line: bytes, on_result: OnResult, on_refusal: OnRefusal | None) -> None:
        self.line = line
        self.on_result = on_result
        self.on_refusal = on_refusal


class Pipeline:
    def __init__(self, paths: Paths, autostart: bool, report: Report, wakeup: int = NO_WAKEUP) -> None:
        """`report` gets a sentence when the daemon is started, is late or is gone; `wakeup`: see Connection."""
        self._paths = paths
        self._autostart = autostart
        self._report = report
        self._wakeup = wakeup
        self._number = 0
        self._calls: dict[int, Call] = {}
        self._received = bytearray()
        self._subscription: Json | None = None
        self._on_event: Callable[[Event], None] = lambda _: None
        self._on_gap: Callable[[], None] = lambda: None
        self._connect(autostart)

    def close(self) -> None:
        self._socket.close()

    @property
    def in_flight(self) -> int:
        return len(self._calls)

    # Calls

    def send(self, method: str, params: Json, on_result: OnResult, on_refusal: OnRefusal | None = None) -> None:
        """Returns at once. A refusal is raised by `poll` unless `on_refusal` takes it."""
        self._number += 1
        line = line_of({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        if not self._calls:
            self._heard_at = time.monotonic()
        self._calls[self._number] = Call(line, on_result, on_refusal)
        self._outgoing += line

    def call(self, method: str, /, **params: Any) -> Any:
        """Waits for the result; replies to other calls and events are handled meanwhile."""
        found: list[Any] = []
        self.send(method, params, found.append)
        while not found:
            self.poll(LATE_S)
        return found[0]

    # Events

    def subscribe(self, on_event: Callable[[Event], None], on_gap: Callable[[], None], **params: Any) -> Json:
        """The result of event.subscribe. `on_gap` is called when events are gone for good."""
        self._on_event, self._on_gap = on_event, on_gap
        started = self.call("event.subscribe", **params)
        self._subscription = {**params, "since": started["sequence"], "epoch": started["epoch"]}
        return {"sequence": started["sequence"], "epoch": started["epoch"]}

    # The connection

    def poll(self, seconds: float, others: Sequence[int] = ()) -> list[int]:
        """Sends and receives what is possible, for up to `seconds`. Returns the descriptors of `others` that can be
        read."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        for descriptor in (*others, *([self._wakeup] if self._wakeup != NO_WAKEUP else [])):
            poller.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poller.poll(max(0, seconds * 1000))]
        if self._wakeup in ready:
            with suppress(BlockingIOError):
                os.read(self._wakeup, CHUNK)
        try:
            if self._socket.fileno() in ready:
                self._exchange()
            self._check_patience()
        except ConnectionLost as lost:
            self._reconnect(lost)
        return [descriptor for descriptor in others if descriptor in ready]

    def _exchange(self) -> None:
        try:
            if self._outgoing:
                with suppress(BlockingIOError):
                    sent = self._socket.send(self._outgoing, NO_SIGNAL)
                    del self._outgoing[:sent]
            chunk = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            raise ConnectionLost(CLOSED) from None
        if not chunk:
            raise ConnectionLost(CLOSED)
        self._heard_at, self._is_late = time.monotonic(), False
        self._received += chunk
        if b"\n" in chunk:
            whole, _, rest = self._received.rpartition(b"\n")
            self._received = rest
            for line in whole.split(b"\n"):
                self._handle(decoded(bytes(line)))

    def _handle(self, message: Json) -> None:
        if "method" in message:
            self._notified(message["method"], message["params"])
            return
        number = message.get("id")
        if number is None:  # the daemon could not read the id
            result(message)
        if number not in self._calls:
            return
        try:
            answer = result(message)
        except CallRefused as refused:
            self._refused(number, refused)
        else:
            self._calls.pop(number).on_result(answer)

    def _refused(self, number: int, refused: CallRefused) -> None:
        if refused.data.get("code") in MADE_AGAIN:
            return
        on_refusal = self._calls.pop(number).on_refusal
        if on_refusal is None:
            raise refused
        on_refusal(refused)

    def _notified(self, method: str, params: Json) -> None:
        if method == "stream.gap":
            self._went_on(params["to"], params["epoch"])
            self._on_gap()
        for event in params.get("events", ()):
            self._went_on(event["sequence"])
            self._on_event(event)

    def _went_on(self, sequence: int, epoch: str | None = None) -> None:
        if self._subscription is not None:
            self._subscription |= {"since": sequence} | ({"epoch": epoch} if epoch else {})

    def _check_patience(self) -> None:
        silent_s = time.monotonic() - self._heard_at if self._calls else 0
        if silent_s > LATE_S + PATIENCE_S:
            raise ConnectionLost("the daemon does not answer; `semantica doctor` finds out why")
        if silent_s > LATE_S and not self._is_late:
            self._is_late = True
            self._report(f"the daemon has not answered yet; waiting for up to {PATIENCE_S:.0f}s more")

    def _connect(self, autostart: bool) -> None:
        connected = connect_or_start(self._paths, start=autostart, report=self._report)
        connected.setblocking(False)
        self._socket: socket.socket = connected
        self._outgoing = bytearray()
        self._received = bytearray()
        self._heard_at, self._is_late = time.monotonic(), False
        if self._subscription is not None:
            subscribe = {"jsonrpc": "2.0", "id": 0, "method": "event.subscribe", "params": self._subscription}
            self._outgoing += line_of(subscribe)
        for call in self._calls.values():
            self._outgoing += call.line

    def _reconnect(self, lost: ConnectionLost) -> None:
        """Raises ConnectionLost when no daemon is there after BACK_WITHIN_S. A daemon that was killed leaves its socket
        behind and is started again; one that was stopped does not, and is waited for."""
        self._report(f"{lost}; waiting for it to come back")
        for _ in attempts(BACK_WITHIN_S, RETRY_EVERY_S):
            self._socket.close()
            with suppress(NoDaemon):
                return self._connect(self._autostart and os.path.exists(self._paths.socket))
        raise lost
