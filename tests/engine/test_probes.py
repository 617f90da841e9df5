"""The sources that need no bus (terminals, load, a Mac's ioreg, the battery), the chain they stand in, and what it
costs a daemon that never asks."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.clock import SystemClock
from semantica_daemon.engine.power import read_power
from semantica_daemon.engine.probes import (
    NOT_INSTALLED,
    Answer,
    LowLoad,
    Places,
    Sources,
    SourceUnavailable,
    display,
    hid_idle,
    last_input,
    local_sessions,
    low_load,
)
from semantica_daemon.model.machine import Power
from tests.cases import each_case
from tests.harness import START, ManualClock
from tests.stopwatch import Stopwatch

INF = float("inf")
NOW = 10_000.0
SOMEBODY = os.getuid() or 1000  # for root consoles are another matter

# cores = 4, so that 1.0 is low without runs of ours
LOADS = [
    # before, averages, own, since, ours
    (None, (0.9, 0.9, 0.9), 0, NOW - 900, None),
    (None, (0.9, 0.9, 1.1), 0, NOW - 300, None),
    (None, (0.9, 1.1, 0.9), 0, NOW - 60, None),
    (None, (1.0, 5.0, 5.0), 0, NOW - 60, None),
    (None, (1.1, 0.0, 0.0), 0, None, None),
    (None, (3.0, 3.0, 3.0), 2, NOW - 900, INF),
    (None, (3.1, 0.0, 0.0), 2, None, None),
    # seen low before: counted from then on, as far as the averages bridge the time between the two looks
    (LowLoad(NOW - 5000, NOW - 30, None), (0.5, 5.0, 5.0), 0, NOW - 5000, None),
    (LowLoad(NOW - 5000, NOW - 61, None), (0.5, 5.0, 5.0), 0, NOW - 60, None),
    (LowLoad(NOW - 5000, NOW - 900, None), (0.5, 0.5, 0.5), 0, NOW - 5000, None),
    (LowLoad(NOW - 100, NOW - 30, None), (0.5, 0.5, 0.5), 0, NOW - 900, None),
    # high: over, unless it is our own doing
    (LowLoad(NOW - 5000, NOW - 30, None), (1.1, 0.5, 0.5), 0, None, None),
    (LowLoad(NOW - 5000, NOW - 30, None), (9.0, 5.0, 5.0), 1, NOW - 5000, INF),
    (LowLoad(NOW - 5000, NOW - 901, None), (9.0, 5.0, 5.0), 1, None, None),
    # our runs are over: what they leave only falls
    (LowLoad(NOW - 5000, NOW - 30, INF), (9.0, 5.0, 5.0), 0, NOW - 5000, 9.0),
    (LowLoad(NOW - 5000, NOW - 30, 9.0), (8.0, 5.0, 5.0), 0, NOW - 5000, 8.0),
    (LowLoad(NOW - 5000, NOW - 30, 8.0), (8.1, 5.0, 5.0), 0, None, None),
    (LowLoad(NOW - 5000, NOW - 30, 2.0), (0.8, 5.0, 5.0), 0, NOW - 5000, None),
]


@each_case(("before", "averages", "own", "since", "ours"), LOADS)
def test_idle_is_the_load_that_is_low_or_our_own(
    before: LowLoad | None, averages: tuple[float, float, float], own: int, since: float | None, ours: float | None
) -> None:
    assert low_load(before, averages, own, 4, NOW) == (None if since is None else LowLoad(since, NOW, ours))


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(1, 60)), min_size=1, max_size=20))
def test_our_own_runs_never_take_idleness_away(looks: list[tuple[float, float]]) -> None:
    now, seen = NOW, low_load(None, (0, 0, 0), 0, 4, NOW)
    assert seen is not None
    since = seen.since
    for load, passed in looks:
        now += passed
        seen = low_load(seen, (load, load, load), 1, 4, now)
        assert seen is not None
        assert seen.since <= since
        since = seen.since


def session(home: Path, name: str, **fields: str) -> None:
    for folder in ("seats", "sessions"):
        (home / folder).mkdir(exist_ok=True)
    (home / "sessions" / name).write_text("".join(f"{key}={value}\n" for key, value in fields.items()))
    (home / "seats" / "seat0").write_text(f"# private\nIS_SEAT0=1\nACTIVE={name}\nSESSIONS={name}\nUIDS=1000\n")


def terminal(home: Path, name: str, typed_ago_ms: int) -> Path:
    path = home / "dev" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, ns=((START - typed_ago_ms) * 1_000_000, START * 1_000_000))
    return path


def sources(home: Path, running: int = 10_000, **environment: str) -> Sources:
    """With so many runs of ours that any load is low, and no bus."""
    environment |= {"XDG_RUNTIME_DIR": str(home), "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={home}/system"}
    places = Places(home / "dev", home / "seats", home / "supplies")
    return Sources(ManualClock(), lambda: running, environment, places, "linux")


async def last_two(asked: Sources) -> tuple[Answer, Answer]:
    tty, load = (await asked.idle(query_all=True))[-2:]
    assert (tty.source, load.source) == ("tty", "load")
    return tty, load


async def test_the_chain_ends_with_the_first_that_can_tell(home: Path) -> None:
    asked = sources(home)
    answers = await asked.idle()
    assert [answer.source for answer in answers] == ["mutter", "screensaver", "logind", "tty", "load"]
    assert [answer.idle_for_ms for answer in answers] == [None, None, None, None, 900_000]
    terminal(home, "pts/0", 30_000)
    answers = await asked.idle()
    assert answers[3:] == [Answer("tty", 22_000, "nothing typed at pts/0 for 22 s")]
    assert [answer.source for answer in await asked.idle(query_all=True)][4:] == ["load"]


async def test_the_newest_input_counts_less_the_eight_seconds_that_the_kernel_keeps_back(home: Path) -> None:
    terminal(home, "pts/0", 90_000)
    terminal(home, "pts/3", 60_000)
    (home / "dev/pts/ptmx").touch()  # no terminal
    (home / "dev/pts/7").symlink_to(home / "closed-in-between")
    tty, _ = await last_two(sources(home))
    assert (tty.idle_for_ms, tty.detail) == (52_000, "nothing typed at pts/3 for 52 s")
    terminal(home, "pts/0", 7_000)
    assert (await last_two(sources(home)))[0].idle_for_ms == 0
    terminal(home, "pts/0", -60_000)  # the clock was set back
    assert (await last_two(sources(home)))[0].idle_for_ms == 0


async def test_terminals_of_others_tell_nothing(home: Path) -> None:
    terminal(home, "pts/0", 60_000)
    assert last_input(home / "dev", os.getuid() + 1) is None
    tty, _ = await last_two(sources(home / "elsewhere"))
    assert (tty.idle_for_ms, tty.detail) == (None, "you have no terminal open")


def test_a_console_is_a_terminal_too(home: Path) -> None:
    terminal(home, "pts/0", 60_000)
    console = terminal(home, "tty3", 30_000)
    terminal(home, "tty", 1)  # whichever terminal one is at
    if os.getuid() == 0:
        for path in (home / "dev").rglob("*[0-9]"):
            os.chown(path, SOMEBODY, -1)
    assert last_input(home / "dev", SOMEBODY) == (START - 30_000, "tty3")
    console.unlink()
    assert last_input(home / "dev", SOMEBODY) == (START - 60_000, "pts/0")


@pytest.mark.skipif(os.getuid() != 0, reason="only root has consoles that nobody is at")
def test_for_root_the_consoles_that_nobody_is_at_tell_nothing(home: Path) -> None:
    terminal(home, "tty3", 30_000)
    assert last_input(home / "dev", 0) is None
    terminal(home, "pts/0", 60_000)
    assert last_input(home / "dev", 0) == (START - 60_000, "pts/0")


async def test_what_is_typed_at_a_real_terminal_is_seen(home: Path) -> None:
    master, slave = os.openpty()
    try:
        here = os.ttyname(slave)
        (home / "dev/pts").mkdir(parents=True)
        (home / "dev/pts/1").symlink_to(here)
        os.utime(here, (time.time() - 3600, time.time()))
        nowhere = {"XDG_RUNTIME_DIR": str(home), "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={home}/system"}
        asked = Sources(SystemClock(), lambda: 0, nowhere, Places(home / "dev", home / "seats"), "linux")
        before = (await last_two(asked))[0].idle_for_ms
        assert before is not None
        assert 3_590_000 <= before < 3_650_000
        os.write(master, b"ls\n")
        os.read(slave, 10)
        assert (await last_two(asked))[0].idle_for_ms == 0
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"TYPE": "wayland", "CLASS": "user", "STATE": "active"}, {"session 3 on seat0": "wayland"}),
        ({"TYPE": "tty", "CLASS": "user", "STATE": "online"}, {"session 3 on seat0": "tty"}),
        ({"TYPE": '"x11"'}, {"session 3 on seat0": "x11"}),
        ({"TYPE": "wayland", "CLASS": "greeter", "STATE": "active"}, {}),
        ({"TYPE": "wayland", "CLASS": "user", "STATE": "closing"}, {}),
        ({}, {"session 3 on seat0": ""}),
    ],
)
def test_who_sits_here_is_known_by_logind_s_files(home: Path, fields: dict[str, str], found: dict[str, str]) -> None:
    session(home, "3", **fields)
    assert local_sessions(home / "seats") == found


def test_a_seat_that_nobody_sits_at_and_a_machine_without_seats_are_the_same(home: Path) -> None:
    assert local_sessions(home / "seats") == {}
    (home / "seats").mkdir()
    (home / "seats" / "seat0").write_text("IS_SEAT0=1\nCAN_GRAPHICAL=1\n")
    assert local_sessions(home / "seats") == {}


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        ({}, None),
        ({"DISPLAY": ":0"}, "a display (DISPLAY=:0)"),
        ({"DISPLAY": "unix:1"}, "a display (DISPLAY=unix:1)"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "a display (WAYLAND_DISPLAY=wayland-0)"),
        ({"DISPLAY": "localhost:10.0"}, None),  # by ssh -X: the screen is somewhere else
        ({"DISPLAY": "", "WAYLAND_DISPLAY": ""}, None),
    ],
)
def test_a_display_is_where_somebody_may_be(home: Path, environment: dict[str, str], seen: str | None) -> None:
    assert display(environment, home / "seats") == seen


async def test_with_a_screen_neither_terminals_nor_load_can_tell(home: Path) -> None:
    terminal(home, "pts/0", 60_000)
    tty, load = await last_two(sources(home, DISPLAY=":0"))
    assert (tty.idle_for_ms, load.idle_for_ms) == (None, None)
    assert tty.detail.startswith("there is a display (DISPLAY=:0)")
    session(home, "3", TYPE="wayland")
    tty, load = await last_two(sources(home))
    assert (tty.idle_for_ms, load.idle_for_ms) == (None, None)
    assert load.detail.startswith("there is wayland session 3 on seat0")


async def test_at_a_text_console_terminals_can_tell_and_load_cannot(home: Path) -> None:
    terminal(home, "pts/0", 60_000)
    session(home, "3", TYPE="tty")
    tty, load = await last_two(sources(home))
    assert (tty.idle_for_ms, load.idle_for_ms) == (52_000, None)
    assert load.detail.startswith("there is session 3 on seat0")


async def test_load_says_by_what_it_judges(home: Path) -> None:
    _, load = await last_two(sources(home))
    assert load.detail.startswith("load ")
    assert load.detail.endswith(f" on {os.cpu_count()} cores, 10000 Semantica jobs running")
    _, load = await last_two(sources(home, running=-10_000))  # so any load is high
    assert load.idle_for_ms == 0
    assert load.detail.startswith("the machine is busy (load ")
    assert load.detail.endswith(" cores, not from Semantica jobs)")


IOREG = """+-o Root  <class IORegistryEntry, id 0x100000100, retain 31>
  | +-o IOHIDSystem  <class IOHIDSystem, id 0x10000036b, registered, matched, active, busy 0 (0 ms), retain 26>
  |   | {
  |   |   "HIDScrollCountMaxTimeDeltaBetween" = 600
  |   |   "HIDIdleTime" = 83495083333
  |   |   "IOClass" = "IOHIDSystem"
  |   | }
"""


def test_a_mac_tells_by_ioreg() -> None:
    assert hid_idle(IOREG) == (83_495, "no input for 83 s")
    with pytest.raises(SourceUnavailable, match="no HIDIdleTime"):
        hid_idle("+-o Root")


@pytest.mark.parametrize(
    ("script", "idle_for_ms", "detail"),
    [
        (f"cat <<'END'\n{IOREG}\nEND", 83_495, "no input for 83 s"),
        ("exit 3", None, "returned non-zero exit status 3"),
        ("exec sleep 60", None, "timed out after 1.0 seconds"),
        (None, None, "No such file"),
    ],
)
async def test_on_a_mac_ioreg_is_the_only_source(
    home: Path, script: str | None, idle_for_ms: int | None, detail: str
) -> None:
    if script is not None:
        (home / "ioreg").write_text(f"#!/bin/sh\n[ $1 = -c ] || exit 9\n{script}\n")
        (home / "ioreg").chmod(0o755)
    asked = Sources(ManualClock(), lambda: 0, {"PATH": str(home)}, Places(home, home, home), "darwin")
    (answer,) = await asked.idle(query_all=True)
    assert (answer.source, answer.idle_for_ms) == ("ioreg", idle_for_ms)
    assert detail in answer.detail


@pytest.fixture
def supplies(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What psutil reads instead of the machine's own."""
    folder = home / "supplies"
    folder.mkdir()
    monkeypatch.setattr("psutil._pslinux.POWER_SUPPLY_PATH", str(folder))
    return folder


def supply(folder: Path, name: str, **fields: str) -> None:
    (folder / name).mkdir()
    for field, value in fields.items():
        (folder / name / field).write_text(f"{value}\n")


BATTERY = {"type": "Battery", "capacity": "63"}
DISCHARGING = BATTERY | {"status": "Discharging"}
MOUSE = DISCHARGING | {"scope": "Device"}
POWERS: list[tuple[dict[str, dict[str, str]], bool | None, str]] = [
    ({}, True, "no battery"),
    ({"AC": {"type": "Mains", "online": "1"}}, True, "no battery"),
    ({"BAT0": DISCHARGING, "AC": {"type": "Mains", "online": "0"}}, False, "on battery, 63 %"),
    ({"BAT0": DISCHARGING}, False, "on battery, 63 %"),
    ({"BAT0": BATTERY, "AC": {"type": "Mains", "online": "1"}}, True, "on mains, battery at 63 %"),
    ({"BAT0": BATTERY | {"status": "Charging"}}, True, "on mains, battery at 63 %"),
    ({"BAT0": BATTERY | {"status": "Not charging"}}, None, "the battery (63 %) does not say whether it is charged"),
    # where psutil alone is wrong: other names of adapters, a dock, a port that charges a phone, a mouse
    ({"BAT0": BATTERY | {"status": "Not charging"}, "ADP1": {"type": "Mains", "online": "1"}}, True, "on mains"),
    ({"BAT0": BATTERY | {"status": "Full"}, "ucsi": {"type": "USB", "online": "1"}}, True, "on mains"),
    ({"BAT0": BATTERY | {"status": "Unknown"}, "ucsi": {"type": "USB_PD", "online": "1"}}, True, "on mains"),
    ({"BAT0": DISCHARGING, "ucsi": {"type": "USB", "online": "1"}}, False, "on battery, 63 %"),
    ({"hidpp_battery_0": MOUSE}, True, "no battery"),
    ({"hidpp_battery_0": MOUSE, "BAT0": DISCHARGING}, False, "on battery, 63 %"),
    ({"hidpp_battery_0": MOUSE, "BAT0": BATTERY | {"status": "Full"}}, True, "on mains"),
    ({"BAT0": {"type": "Battery", "energy_now": "1", "energy_full": "full"}}, None, "the battery cannot be read"),
]


@pytest.mark.parametrize(("found", "charging", "detail"), POWERS)
async def test_power_is_what_the_supplies_say(
    home: Path, supplies: Path, found: dict[str, dict[str, str]], charging: bool | None, detail: str
) -> None:
    for name, fields in found.items():
        supply(supplies, name, **fields)
    power = await sources(home).power()
    assert (power.source, power.charging) == ("psutil", charging)
    assert power.detail.startswith(detail)


def test_a_kernel_that_knows_of_no_supplies_has_no_battery(supplies: Path) -> None:
    supplies.rmdir()
    assert read_power(supplies) == Power("psutil", True, "no battery")


async def test_this_machine_has_an_answer() -> None:
    power = await Sources(SystemClock(), lambda: 0).power()
    assert power.detail
    assert "cannot be read" not in power.detail


async def test_a_battery_that_hangs_costs_a_second_and_one_thread(home: Path, supplies: Path) -> None:
    supply(supplies, "BAT0", type="Battery")
    os.mkfifo(supplies / "BAT0/capacity")
    asked = sources(home)
    watch, before = Stopwatch(), time.monotonic()
    first, second = await asyncio.gather(asked.power(), asked.power())
    assert time.monotonic() - before >= 1
    assert watch.seconds() < 10
    assert first == second == Power("psutil", None, "the battery did not answer within 1 s")
    with (supplies / "BAT0/capacity").open("w") as battery:  # returns when it is being read
        battery.write("63\n")
    assert await asked.power() == Power("psutil", None, "the battery (63 %) does not say whether it is charged")


NEVER_ASKED = """
import sys
from semantica_daemon.clock import SystemClock
from semantica_daemon.engine.probes import Sources
Sources(SystemClock(), lambda: 0)
print(sorted({"psutil", "dbus_fast", "semantica_daemon.engine.desktop"} & set(sys.modules)))
"""

NOT_THERE = """
import asyncio, sys
sys.modules["dbus_fast"] = None
from semantica_daemon.clock import SystemClock
from semantica_daemon.engine.probes import Sources
for answer in asyncio.run(Sources(SystemClock(), lambda: 0, platform="linux").idle(query_all=True))[:3]:
    print(answer.source, answer.idle_for_ms, answer.detail)
"""


def python(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


def test_who_never_asks_pays_for_nothing() -> None:
    assert python(NEVER_ASKED) == "[]\n"


def test_without_dbus_fast_each_source_says_how_to_get_it() -> None:
    lines = [f"{source} None {NOT_INSTALLED}" for source in ("mutter", "screensaver", "logind")]
    assert python(NOT_THERE).splitlines() == lines
