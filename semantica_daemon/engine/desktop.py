"""The D-Bus sources of `engine/probes`, with dbus-fast (the extra `desktop`): GNOME's Mutter, the screen saver and
logind. A query starts no service, and a service that hangs is not queried again for SILENCE_S."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dbus_fast import Message, MessageFlag, MessageType, Variant
from dbus_fast.aio import MessageBus

from semantica_daemon.clock import Clock
from semantica_daemon.engine.probes import SOURCE_TIMEOUT_S, Idleness, SourceUnavailable, no_input

SILENCE_S = 60
LONGEST_MS = 10 * 365 * 24 * 3600 * 1000
MUTTER = "org.gnome.Mutter.IdleMonitor"
SAVER = "org.freedesktop.ScreenSaver"
KDE = "org.kde.screensaver"  # a second name of KDE's screen saver, and of no other
SAVERS = ((KDE, "/org/freedesktop/ScreenSaver"), (SAVER, "/org/freedesktop/ScreenSaver"), (SAVER, "/ScreenSaver"))
SURELY_MS = 60_000
LOGIND = "org.freedesktop.login1"
ERROR = "org.freedesktop.DBus.Error."
ABSENT = {ERROR + "ServiceUnknown", ERROR + "NameHasNoOwner"}
UNKNOWN = {ERROR + "UnknownObject", ERROR + "UnknownInterface", ERROR + "UnknownMethod", ERROR + "UnknownProperty"}


class Refused(SourceUnavailable):
    """The service replied with an error."""

    def __init__(self, message: str, error: str) -> None:
        super().__init__(message)
        self.error = error


class Bus:
    """A connection to a bus, opened on first use, and again after it was lost."""

    def __init__(self, name: str, address: Callable[[], str]) -> None:
        self.name = name
        self._address = address
        self._bus: MessageBus | None = None

    @property
    def is_there(self) -> bool:
        return self._bus is not None and self._bus.connected

    async def call(self, name: str, path: str, interface: str, member: str, *body: str) -> list[Any]:
        """`body`: the arguments, which are all strings."""
        message = Message(
            destination=name,
            path=path,
            interface=interface,
            member=member,
            flags=MessageFlag.NO_AUTOSTART,
            signature="s" * len(body),
            body=list(body),
        )
        bus = await self._connected()
        try:
            reply = await bus.call(message)
            is_error = reply.message_type is MessageType.ERROR
        except Exception as error:  # dbus-fast raises the error that ended the connection, of any type
            raise SourceUnavailable(f"the {self.name} has gone away: {error or type(error).__name__}") from error
        if is_error:
            raise self._refused(name, reply)
        return list(reply.body)

    async def close(self) -> None:
        bus, self._bus = self._bus, None
        if bus is not None:
            bus.disconnect()
            lost = bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
            # Its descriptor is closed only then; gather takes the error, which asyncio would log otherwise.
            await asyncio.gather(asyncio.wait_for(lost, SOURCE_TIMEOUT_S), return_exceptions=True)

    async def _connected(self) -> MessageBus:
        for _ in range(2):  # the loop must first notice a bus that is gone: a write to it would leave errors behind
            await asyncio.sleep(0)
        if self._bus is not None and self._bus.connected:
            return self._bus
        await self.close()
        address = self._address()
        try:
            bus = await MessageBus(address).connect()
        except Exception as error:  # in the address, the socket or the handshake, or it is no bus at all
            raise SourceUnavailable(
                f"the {self.name} cannot be reached at {address}: {error or type(error).__name__}"
            ) from error
        self._bus = bus
        return bus

    def _refused(self, name: str, reply: Message) -> Refused:
        error = reply.error_name or "an error"
        if error in ABSENT:
            return Refused(f"there is no {name} on the {self.name}", error)
        text = f": {reply.body[0]}" if reply.body else ""
        return Refused(f"{name} answered {error}{text}"[:300], error)


class Desktop:
    def __init__(self, environment: Mapping[str, str], clock: Clock) -> None:
        self._clock = clock
        self._session = Bus("session bus", partial(session_address, environment))
        self._system = Bus("system bus", partial(system_address, environment))
        self._questions = {
            "mutter": (self._session, self._mutter),
            "screensaver": (self._session, self._screensaver),
            "logind": (self._system, self._logind),
        }
        self._silent_until: dict[str, float] = {}

    async def read(self, source: str) -> Idleness:
        bus, question = self._questions[source]
        for silent in (source, bus.name):
            self._check_silence(silent)
        try:
            async with asyncio.timeout(SOURCE_TIMEOUT_S):
                return await question()
        except TimeoutError:
            silent = source if bus.is_there else bus.name
            self._silent_until[silent] = self._clock.monotonic() + SILENCE_S
            await bus.close()  # or the query would wait for as long as the bus is there
            raise SourceUnavailable(f"{silent} did not answer within {SOURCE_TIMEOUT_S:.0f} s") from None

    async def close(self) -> None:
        await self._session.close()
        await self._system.close()

    def _check_silence(self, silent: str) -> None:
        now = self._clock.monotonic()
        left_s = self._silent_until.get(silent, now) - now
        if left_s > 0:
            raise SourceUnavailable(
                f"{silent} did not answer within {SOURCE_TIMEOUT_S:.0f} s: it is asked again in {left_s:.0f} s"
            )

    async def _mutter(self) -> Idleness:
        body = await self._session.call(MUTTER, "/org/gnome/Mutter/IdleMonitor/Core", MUTTER, "GetIdletime")
        return no_input(_number(MUTTER, body))

    async def _screensaver(self) -> Idleness:
        """KDE reports milliseconds, though its interface says seconds, and refuses on Wayland. Some of the others
        report seconds, and some always report 0: a value is accepted only if it is long in either unit."""
        for name, path in SAVERS:
            try:
                body = await self._session.call(name, path, SAVER, "GetSessionIdleTime")
            except Refused as refused:
                if refused.error not in ABSENT | UNKNOWN:
                    raise
                continue
            value = _number(name, body)
            if name != KDE and value < SURELY_MS:
                raise SourceUnavailable(f"{name} says {value}, which may be seconds, milliseconds or nothing at all")
            return no_input(value)
        raise SourceUnavailable(f"there is no {SAVER} on the {self._session.name} that knows")

    async def _logind(self) -> Idleness:
        """logind gets hints from some desktops, and reads the terminals itself."""
        is_idle, since_us = await self._hint("IdleHint", bool), await self._hint("IdleSinceHint", int)
        if since_us <= 0:
            never = "no desktop has ever set its hint, or something keeps the machine awake"
            raise SourceUnavailable(f"{LOGIND} does not know: {'nobody is logged in' if is_idle else never}")
        idle_for_ms = max(0, self._clock.now() - since_us // 1000) if is_idle else 0
        return no_input(_number(LOGIND, [idle_for_ms]))

    async def _hint(self, name: str, kind: type) -> Any:
        properties, manager = "org.freedesktop.DBus.Properties", f"{LOGIND}.Manager"
        body = await self._system.call(LOGIND, "/org/freedesktop/login1", properties, "Get", manager, name)
        match body:
            case [Variant(value=value)] if type(value) is kind:
                return value
        raise _nonsense(LOGIND, body)


def session_address(environment: Mapping[str, str]) -> str:
    """The address from the environment, else the path where systemd puts the bus: a daemon started by a client may lack
    the variable."""
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    usual = Path(runtime, "bus")
    if not environment.get("DBUS_SESSION_BUS_ADDRESS") and not usual.exists():
        raise SourceUnavailable(
            f"there is no session bus: DBUS_SESSION_BUS_ADDRESS is not set, and {usual} is not there"
        )
    return environment.get("DBUS_SESSION_BUS_ADDRESS") or f"unix:path={quote(str(usual))}"


def system_address(environment: Mapping[str, str]) -> str:
    return environment.get("DBUS_SYSTEM_BUS_ADDRESS") or "unix:path=/run/dbus/system_bus_socket"


def _number(name: str, body: list[Any]) -> int:
    match body:
        case [value] if type(value) is int and 0 <= value <= LONGEST_MS:
            return value
    raise _nonsense(name, body)


def _nonsense(name: str, body: list[Any]) -> SourceUnavailable:
    return SourceUnavailable(f"{name} answered nonsense: {str(body)[:100]}")
