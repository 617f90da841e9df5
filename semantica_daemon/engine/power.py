"""Whether the machine is on mains power, by psutil, corrected by what the kernel reports about each supply."""

from importlib import import_module
from pathlib import Path
from typing import Any

from semantica_daemon.model.machine import Power


class Unreadable(Exception):
    """The battery cannot be read."""


def read_power(supplies: Path) -> Power:
    """Reads the battery; it may block."""
    try:
        battery = _battery()
    except Unreadable as error:
        return Power("psutil", None, str(error))
    if battery is None or not _has_battery(supplies):
        return Power("psutil", True, "no battery")
    charge = f"{battery.percent:.0f} %"
    if battery.power_plugged or _is_plugged(supplies):
        return Power("psutil", True, f"on mains, battery at {charge}")
    if battery.power_plugged is None:
        return Power("psutil", None, f"the battery ({charge}) does not say whether it is charged")
    return Power("psutil", False, f"on battery, {charge}")


def _battery() -> Any:
    """Imports psutil on first use: that takes 20 ms, which would delay the start."""
    try:
        return import_module("psutil").sensors_battery()
    except FileNotFoundError:
        return None  # a container, or a kernel without power supplies
    except Exception as error:  # drivers do not always write what psutil expects
        raise Unreadable(f"the battery cannot be read: {error}") from error


def _has_battery(supplies: Path) -> bool:
    """Whether the machine has a battery of its own; psutil also reports a wireless mouse's."""
    found = _supplies(supplies)
    return not found or any(supply["type"] == "Battery" for supply in found if supply["scope"] != "Device")


def _is_plugged(supplies: Path) -> bool:
    """psutil knows only adapters named AC and AC0. A USB port that charges a phone is online too, so it does not count
    while the battery discharges."""
    found = [supply for supply in _supplies(supplies) if supply["scope"] != "Device"]
    online = [supply["type"] for supply in found if supply["online"] == "1"]
    is_used_up = any(supply["type"] == "Battery" and supply["status"] == "Discharging" for supply in found)
    return "Mains" in online or (not is_used_up and any(kind.startswith("USB") for kind in online))


def _supplies(folder: Path) -> list[dict[str, str]]:
    return [
        {name: text_of(supply / name) for name in ("type", "scope", "online", "status")} for supply in folder.glob("*")
    ]


def text_of(path: Path) -> str:
    """Empty when there is no such file, or it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
