"""Asking the desktop over a real bus with services of our own: who answers, is not there, hangs, refuses or lies."""

import asyncio
import gc
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import ErrorType, Message, Variant
from dbus_fast.aio import MessageBus

from semantica_daemon.engine.desktop import session_address
from semantica_daemon.engine.probes import Answer, Places, Sources, SourceUnavailable
from tests.descriptors import own_descriptors
from tests.engine.fake_desktop import CORE, KDE, LOGIND, MUTTER, SAVER, SAVER_AT, Fake, PrivateBus, private_bus
from tests.harness import START, ManualClock
from tests.stopwatch import Stopwatch

pytestmark = pytest.mark.usefixtures("no_garbage_collection")

HINTS = "/org/freedesktop/login1"
SINCE_US = (START - 300_000) * 1000


@pytest.fixture
def bus(home: Path) -> Iterator[PrivateBus]:
    with private_bus(home) as started:
        yield started


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def sources(bus: PrivateBus, clock: ManualClock, home: Path) -> AsyncIterator[Sources]:
    made = on(bus.address, clock, home)
    yield made
    await made.close()


def on(address: str, clock: ManualClock, home: Path) -> Sources:
    """With nothing but D-Bus to tell anything: somebody sits at this seat, and there is no terminal."""
    (home / "seats").mkdir(exist_ok=True)
    (home / "seats" / "seat0").write_text("SESSIONS=1\n")
    environment = {"DBUS_SESSION_BUS_ADDRESS": address, "DBUS_SYSTEM_BUS_ADDRESS": address}
    return Sources(clock, lambda: 0, environment, Places(home / "dev", home / "seats", home / "supplies"), "linux")


async def idle_times(sources: Sources) -> dict[str, int | None]:
    return {answer.source: answer.idle_for_ms for answer in await sources.idle(query_all=True)}


async def answer_of(sources: Sources, source: str) -> Answer:
    return next(answer for answer in await sources.idle(query_all=True) if answer.source == source)


async def test_each_source_answers_and_the_first_of_them_wins(bus: PrivateBus, sources: Sources) -> None:
    fake = await Fake.on(bus.address, MUTTER, SAVER, KDE, LOGIND)
    fake.mutter(40_000)
    fake.saver(50_000)
    fake.logind(True, SINCE_US)
    assert await sources.idle() == [Answer("mutter", 40_000, "no input for 40 s")]
    assert fake.asked == ["GetIdletime"]
    expected = {"mutter": 40_000, "screensaver": 50_000, "logind": 300_000, "tty": None, "load": None}
    assert await idle_times(sources) == expected
    await fake.close()


async def test_whoever_is_not_there_is_passed_over_and_named(bus: PrivateBus, sources: Sources) -> None:
    fake = await Fake.on(bus.address, LOGIND)
    fake.logind(False, SINCE_US)
    mutter, saver, logind = await sources.idle()
    assert (mutter.idle_for_ms, mutter.detail) == (None, f"there is no {MUTTER} on the session bus")
    assert (saver.idle_for_ms, saver.detail) == (None, f"there is no {SAVER} on the session bus that knows")
    assert logind == Answer("logind", 0, "no input for 0 s")
    await fake.close()


@pytest.mark.parametrize("path", [SAVER_AT, "/ScreenSaver"])
@pytest.mark.parametrize(("says", "idle_for_ms"), [(0, None), (300, None), (59_999, None), (60_000, 60_000)])
async def test_a_screen_saver_of_unknown_unit_is_believed_only_when_it_is_long_in_both(
    bus: PrivateBus, sources: Sources, path: str, says: int, idle_for_ms: int | None
) -> None:
    fake = await Fake.on(bus.address, SAVER)
    fake.saver(says, path)
    answer = await answer_of(sources, "screensaver")
    assert answer.idle_for_ms == idle_for_ms
    assert idle_for_ms is not None or f"says {says}" in answer.detail
    await fake.close()


@pytest.mark.parametrize("says", [0, 300, 120_000])
async def test_the_screen_saver_of_kde_counts_milliseconds(bus: PrivateBus, sources: Sources, says: int) -> None:
    fake = await Fake.on(bus.address, SAVER, KDE)
    fake.saver(says)
    assert (await answer_of(sources, "screensaver")).idle_for_ms == says
    await fake.close()


async def test_kde_on_wayland_refuses_and_is_quoted(bus: PrivateBus, sources: Sources) -> None:
    fake = await Fake.on(bus.address, SAVER, KDE)
    fake.refuse(SAVER_AT, "GetSessionIdleTime", ErrorType.NOT_SUPPORTED, "not supported on this platform")
    answer = await answer_of(sources, "screensaver")
    assert answer.idle_for_ms is None
    assert answer.detail.endswith("NotSupported: not supported on this platform")
    assert fake.asked == ["GetSessionIdleTime"]
    await fake.close()


@pytest.mark.parametrize(
    ("is_idle", "since_us", "idle_for_ms", "detail"),
    [
        (True, SINCE_US, 300_000, "no input for 300 s"),
        (True, (START + 9000) * 1000, 0, "no input for 0 s"),  # the clock was set back
        (True, 0, None, "nobody is logged in"),
        (False, SINCE_US, 0, "no input for 0 s"),
        (False, 0, None, "no desktop has ever set its hint"),
    ],
)
async def test_what_logind_says(
    bus: PrivateBus, sources: Sources, is_idle: bool, since_us: int, idle_for_ms: int | None, detail: str
) -> None:
    fake = await Fake.on(bus.address, LOGIND)
    fake.logind(is_idle, since_us)
    answer = await answer_of(sources, "logind")
    assert answer.idle_for_ms == idle_for_ms
    assert detail in answer.detail
    await fake.close()


NONSENSE: list[tuple[str, list[Any]]] = [
    ("s", ["never"]),
    ("x", [-1]),
    ("b", [True]),
    ("d", [1.5]),
    ("t", [2**64 - 1]),
    ("tt", [1, 2]),
    ("", []),
    ("v", [Variant("t", 1)]),
    ("s", ["x" * 100_000]),
]


@pytest.mark.parametrize(("signature", "body"), NONSENSE)
async def test_a_lie_is_no_answer(bus: PrivateBus, sources: Sources, signature: str, body: list[Any]) -> None:
    fake = await Fake.on(bus.address, MUTTER, KDE, LOGIND)
    fake.answer(CORE, "GetIdletime", signature, *body)
    fake.answer(SAVER_AT, "GetSessionIdleTime", signature, *body)
    fake.answer(HINTS, "IdleHint", signature, *body)
    for answer in await sources.idle(query_all=True):
        assert answer.idle_for_ms is None
        assert answer.source in ("tty", "load") or "nonsense" in answer.detail
        assert len(answer.detail) < 250
    await fake.close()


@pytest.mark.parametrize("hint", [Variant("s", "yes"), Variant("t", 1), Variant("x", -5)])
async def test_properties_that_cannot_be_are_no_answer(bus: PrivateBus, sources: Sources, hint: Variant) -> None:
    fake = await Fake.on(bus.address, LOGIND)
    for name in ("IdleHint", "IdleSinceHint"):
        fake.logind(True, SINCE_US)
        fake.answer(HINTS, name, "v", hint)
        assert (await answer_of(sources, "logind")).idle_for_ms is None
    await fake.close()


@pytest.mark.parametrize("error", [ErrorType.FAILED, ErrorType.ACCESS_DENIED, ErrorType.LIMITS_EXCEEDED])
async def test_an_error_is_no_answer_and_is_quoted(bus: PrivateBus, sources: Sources, error: ErrorType) -> None:
    fake = await Fake.on(bus.address, MUTTER, SAVER, LOGIND)
    fake.refuse(CORE, "GetIdletime", error, "x" * 1000)
    fake.refuse(SAVER_AT, "GetSessionIdleTime", error)
    fake.refuse(HINTS, "IdleHint", error)
    mutter, saver, logind, *_ = await sources.idle(query_all=True)
    for answer in (mutter, saver, logind):
        assert answer.idle_for_ms is None
        assert error.value in answer.detail
        assert len(answer.detail) <= 300
    await fake.close()


async def test_who_hangs_costs_a_second_and_is_left_alone_for_a_minute(
    bus: PrivateBus, sources: Sources, clock: ManualClock
) -> None:
    fake = await Fake.on(bus.address, MUTTER, LOGIND)
    fake.be_silent(CORE, "GetIdletime")
    fake.logind(True, SINCE_US)
    watch, before = Stopwatch(), time.monotonic()
    answers = await sources.idle()
    assert time.monotonic() - before >= 1
    assert watch.seconds() < 10
    assert [answer.idle_for_ms for answer in answers] == [None, None, 300_000]
    assert answers[0].detail == "mutter did not answer within 1 s"
    clock.next_timer(START + 59_000)
    assert (await sources.idle())[0].detail == "mutter did not answer within 1 s: it is asked again in 1 s"
    assert fake.asked.count("GetIdletime") == 1
    fake.mutter(7)
    clock.next_timer(START + 60_000)
    assert await sources.idle() == [Answer("mutter", 7, "no input for 0 s")]
    await fake.close()


async def test_who_hangs_is_not_waited_for_by_the_bus_either(bus: PrivateBus, sources: Sources) -> None:
    fake = await Fake.on(bus.address, LOGIND)
    fake.be_silent(HINTS, "IdleHint")
    before = len(own_descriptors())
    await sources.idle(query_all=True)
    assert len(own_descriptors()) == before + 1  # the session bus; the other is let go, and with it what was asked
    await fake.close()


async def test_an_ask_that_is_given_up_disturbs_nobody(bus: PrivateBus, sources: Sources) -> None:
    fake = await Fake.on(bus.address, MUTTER)
    fake.be_silent(CORE, "GetIdletime")
    ask = asyncio.create_task(sources.idle())
    await fake.was_asked.wait()
    ask.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ask
    fake.mutter(7)
    assert (await sources.idle())[-1].idle_for_ms == 7
    await fake.close()


async def test_who_leaves_while_it_is_asked_is_told(bus: PrivateBus, sources: Sources) -> None:
    fake = await Fake.on(bus.address, MUTTER)
    fake.be_silent(CORE, "GetIdletime")
    ask = asyncio.create_task(sources.idle())
    await fake.was_asked.wait()
    await fake.close()
    assert f"{MUTTER} answered org.freedesktop.DBus.Error.NoReply" in (await ask)[0].detail


async def test_a_bus_that_is_killed_while_it_is_asked_is_told(bus: PrivateBus, sources: Sources) -> None:
    fake = await Fake.on(bus.address, MUTTER)
    fake.be_silent(CORE, "GetIdletime")
    ask = asyncio.create_task(sources.idle())
    await fake.was_asked.wait()
    bus.kill()
    assert "the session bus has gone away" in (await ask)[0].detail
    await asyncio.gather(fake.close(), return_exceptions=True)


async def test_asks_at_the_same_time_share_a_connection(bus: PrivateBus, sources: Sources) -> None:
    fake = await Fake.on(bus.address, MUTTER)
    fake.mutter(7)
    before = len(own_descriptors())
    answers = await asyncio.gather(*(sources.idle() for _ in range(5)))
    assert [answer.idle_for_ms for (answer,) in answers] == [7] * 5
    assert len(own_descriptors()) == before + 1
    await fake.close()


async def test_a_bus_that_was_killed_is_missed_and_then_found_again(bus: PrivateBus, sources: Sources) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    for _ in range(2):
        fake = await Fake.on(bus.address, MUTTER)
        fake.mutter(7)
        assert (await sources.idle())[-1].idle_for_ms == 7
        bus.kill()
        for _ in range(2):
            assert "session bus cannot be reached" in (await sources.idle())[0].detail
        await asyncio.gather(fake.close(), return_exceptions=True)
        bus.start()
    assert (await answer_of(sources, "mutter")).detail == f"there is no {MUTTER} on the session bus"
    gc.collect()
    assert complaints == []


async def test_a_bus_that_was_replaced_between_two_asks_is_not_even_missed(bus: PrivateBus, sources: Sources) -> None:
    await sources.idle()
    bus.kill()
    bus.start()
    fake = await Fake.on(bus.address, MUTTER)
    fake.mutter(7)
    assert (await sources.idle())[-1].idle_for_ms == 7
    await fake.close()


async def test_after_a_close_it_connects_again(bus: PrivateBus, sources: Sources) -> None:
    fake = await Fake.on(bus.address, MUTTER)
    fake.mutter(7)
    before = len(own_descriptors())
    for _ in range(3):
        assert (await sources.idle())[-1].idle_for_ms == 7
        assert len(own_descriptors()) == before + 1
        await sources.close()
        assert len(own_descriptors()) == before
    await fake.close()


@pytest.mark.parametrize("is_there", [True, False])
async def test_asks_leave_no_descriptor_and_no_task(bus: PrivateBus, sources: Sources, is_there: bool) -> None:
    fake = await Fake.on(bus.address, LOGIND)
    fake.logind(True, SINCE_US)
    if not is_there:
        bus.kill()
    await sources.idle(query_all=True)
    before, tasks = len(own_descriptors()), asyncio.all_tasks()
    for _ in range(50):
        await sources.idle(query_all=True)
    assert len(own_descriptors()) == before
    assert asyncio.all_tasks() == tasks
    await asyncio.gather(fake.close(), return_exceptions=True)


async def test_nobody_is_started_by_being_asked(bus: PrivateBus, sources: Sources, home: Path) -> None:
    started = home / "started"
    for name in (MUTTER, SAVER, KDE, LOGIND):
        start = f"/bin/sh -c 'touch {started}; exit 1'"
        (bus.services / f"{name}.service").write_text(f"[D-BUS Service]\nName={name}\nExec={start}\n")
    bus.kill()
    bus.start()
    answers = await idle_times(sources)
    assert set(answers.values()) == {None}
    assert not started.exists()
    caller = await MessageBus(bus.address).connect()  # as anybody else would ask
    await caller.call(Message(destination=MUTTER, path=CORE, interface=MUTTER, member="GetIdletime"))
    assert started.exists()
    caller.disconnect()
    await caller.wait_for_disconnect()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "address", ["unix:path=/nowhere/at/all", "", "nonsense", "unix:", "ftp:host=x", "tcp:host=localhost,port=x", ";;"]
)
async def test_an_address_that_leads_nowhere_is_told(address: str, clock: ManualClock, home: Path) -> None:
    sources = on(address or f"unix:path={home}/no-bus", clock, home)
    before = len(own_descriptors())
    for answer in await sources.idle(query_all=True):
        assert answer.idle_for_ms is None
        assert answer.source in ("tty", "load") or "bus cannot be reached at" in answer.detail
    assert len(own_descriptors()) == before


async def test_a_bus_that_does_not_answer_is_left_alone_as_a_whole(clock: ManualClock, home: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(home / "silent"))
        silent.listen()
        sources = on(f"unix:path={home}/silent", clock, home)
        descriptors = len(own_descriptors())
        watch, before = Stopwatch(), time.monotonic()
        mutter, saver, logind, *_ = await sources.idle(query_all=True)
        assert time.monotonic() - before >= 2  # once for each bus, not for each source
        assert watch.seconds() < 10
        assert (mutter.detail, logind.detail) == (
            "session bus did not answer within 1 s",
            "system bus did not answer within 1 s",
        )
        assert saver.detail.endswith("it is asked again in 60 s")
        assert len(own_descriptors()) == descriptors


@pytest.mark.parametrize("line", [b"HTTP/1.0 400 Bad Request\r\n\r\n", b"\xff\xfe\r\n", b"OK\r\n" + b"\xff" * 5000])
async def test_what_is_no_bus_is_told(clock: ManualClock, home: Path, line: bytes) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n")
        writer.write(line)
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(talk, home / "other"):
        sources = on(f"unix:path={home}/other", clock, home)
        mutter = (await sources.idle(query_all=True))[0]
        assert mutter.idle_for_ms is None
        assert "session bus" in mutter.detail
        await sources.close()
    gc.collect()
    assert complaints == []


def test_the_session_bus_is_looked_for_where_systemd_puts_it(home: Path) -> None:
    with pytest.raises(SourceUnavailable, match="DBUS_SESSION_BUS_ADDRESS is not set"):
        session_address({"XDG_RUNTIME_DIR": str(home)})
    folder = home / "with, comma"
    folder.mkdir()
    (folder / "bus").touch()
    assert session_address({"XDG_RUNTIME_DIR": str(folder)}) == f"unix:path={home}/with%2C%20comma/bus"
    both = {"XDG_RUNTIME_DIR": str(home), "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}
    assert session_address(both) == "unix:path=/x"


async def test_a_session_bus_at_its_usual_place_is_used(bus: PrivateBus, clock: ManualClock, home: Path) -> None:
    fake = await Fake.on(bus.address, MUTTER)
    fake.mutter(7)
    environment = {"XDG_RUNTIME_DIR": str(home), "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere"}
    sources = Sources(clock, lambda: 0, environment, platform="linux")
    assert (await sources.idle())[0].idle_for_ms == 7
    await sources.close()
    await fake.close()
