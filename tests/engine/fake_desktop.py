"""A desktop of our own: a private dbus-daemon, and services on it that answer, refuse, lie or keep silent."""

import asyncio
import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import ErrorType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

MUTTER = "org.gnome.Mutter.IdleMonitor"
SAVER = "org.freedesktop.ScreenSaver"
KDE = "org.kde.screensaver"
LOGIND = "org.freedesktop.login1"
CORE = "/org/gnome/Mutter/IdleMonitor/Core"
SAVER_AT = "/org/freedesktop/ScreenSaver"
SILENCE = True  # handled, says dbus-fast, and nobody replies
# For where dbus-daemon is missing: what it needs is named too, for a small image may lack any of it.
PACKAGES = ["dbus-daemon", "libdbus-1-3", "libexpat1", "libapparmor1"]
PACKAGES += ["libaudit1", "libcap-ng0", "libselinux1", "libsystemd0"]

CONFIG = """<busconfig>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <servicedir>{services}</servicedir>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
  </policy>
</busconfig>
"""


@cache
def program() -> tuple[str, dict[str, str]]:
    """dbus-daemon, and the environment it needs. Where it is not installed it is unpacked into a temporary folder."""
    if found := shutil.which("dbus-daemon"):
        return found, {}
    folder = Path(tempfile.mkdtemp(prefix="sem-dbus-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, capture_output=True, timeout=40, check=True)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(folder)], capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        why = f"dbus-daemon is not installed, and cannot be fetched: {error}"
        pytest.skip(f"NOT TESTED: nothing was asked over D-Bus; {why}")
    libraries = ":".join(map(str, folder.glob("**/lib/*-linux-gnu*")))
    return str(folder / "usr/bin/dbus-daemon"), {"LD_LIBRARY_PATH": libraries}


class PrivateBus:
    """A bus with an address that stays the same when it is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "bus"
        self.services = folder / "services"
        self.address = f"unix:path={self.socket}"
        self._config = folder / "bus.conf"
        self._said = folder / "bus.err"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.services.mkdir(parents=True, exist_ok=True)
        self._config.write_text(CONFIG.format(socket=self.socket, services=self.services))
        path, environment = program()
        command = [path, f"--config-file={self._config}", "--nofork", "--nopidfile", "--print-address=1"]
        with self._said.open("wb") as said:
            started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, env=os.environ | environment)
        self._process = started
        assert started.stdout is not None
        assert started.stdout.readline(), self._said.read_text()  # its address: it listens

    def kill(self) -> None:
        if self._process is not None:
            assert self._process.stdout is not None
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._process = None
            self.socket.unlink(missing_ok=True)


@contextmanager
def private_bus(folder: Path) -> Iterator[PrivateBus]:
    bus = PrivateBus(folder)
    try:
        bus.start()
        yield bus
    finally:
        bus.kill()


class Fake:
    """Whoever has some names on a bus, and says what it was told to say: by the path and the member asked for."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        self._replies: dict[tuple[str, str], tuple[str, list[Any]] | tuple[str, str] | bool] = {}
        self.asked: list[str] = []
        self.was_asked = asyncio.Event()
        bus.add_message_handler(self._reply)

    @classmethod
    async def on(cls, address: str, *names: str) -> "Fake":
        fake = cls(await MessageBus(address).connect())
        for name in names:
            await fake._bus.request_name(name)
        return fake

    def answer(self, path: str, member: str, signature: str, *body: Any) -> None:
        self._replies[path, member] = (signature, list(body))

    def refuse(self, path: str, member: str, error: ErrorType, text: str = "no") -> None:
        self._replies[path, member] = (error.value, text)

    def be_silent(self, path: str, member: str) -> None:
        self._replies[path, member] = SILENCE

    def mutter(self, idle_for_ms: int) -> None:
        self.answer(CORE, "GetIdletime", "t", idle_for_ms)

    def saver(self, idle_for: int, path: str = SAVER_AT) -> None:
        self.answer(path, "GetSessionIdleTime", "u", idle_for)

    def logind(self, is_idle: bool, since_us: int) -> None:
        self.answer("/org/freedesktop/login1", "IdleHint", "v", Variant("b", is_idle))
        self.answer("/org/freedesktop/login1", "IdleSinceHint", "v", Variant("t", since_us))

    async def close(self) -> None:
        self._bus.disconnect()
        await self._bus.wait_for_disconnect()  # type: ignore[no-untyped-call]

    def _reply(self, message: Message) -> Message | bool | None:
        """A property is asked for by its name, as if it were a method."""
        member = str(message.body[1] if message.member == "Get" else message.member)
        is_call = message.message_type is MessageType.METHOD_CALL
        reply = self._replies.get((message.path or "", member)) if is_call else None
        if reply is None:
            return None
        self.asked.append(member)
        self.was_asked.set()
        match reply:
            case (str(signature), list(body)):
                return Message.new_method_return(message, signature, body)
            case (str(error), str(text)):
                return Message.new_error(message, error, text)
        return SILENCE
