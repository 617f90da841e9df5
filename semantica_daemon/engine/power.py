"""Whether the machine is on mains, as psutil tells, put right by what the kernel says of each supply."""

from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct


class Power(Struct, frozen=True):
    """On mains, or without a battery. None: nobody can tell, and `detail` says why."""

    source: str
    charging: bool | None
    detail: str


class Unreadable(Exception):
    """Why the battery says nothing."""


def read_power(supplies: Path) -> Power:
    """Blocks."""
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
    """psutil is loaded here, when it is first of use: it takes 20 ms that no start should wait for."""
    try:
        return import_module("psutil").sensors_battery()
    except FileNotFoundError:
        return None  # a container, or a kernel that knows of no supplies
    except Exception as error:  # what a driver writes is not always what psutil expects
        raise Unreadable(f"the battery cannot be read: {error}") from error


def _has_battery(supplies: Path) -> bool:
    """psutil takes the battery of a wireless mouse for the machine's own when there is no other."""
    found = _supplies(supplies)
    return not found or any(supply["type"] == "Battery" for supply in found if supply["scope"] != "Device")


def _is_plugged(supplies: Path) -> bool:
    """psutil knows only adapters with the names AC and AC0. A port that charges a phone is online too."""
    found = [supply for supply in _supplies(supplies) if supply["scope"] != "Device"]
    online = [supply["type"] for supply in found if supply["online"] == "1"]
    is_used_up = any(supply["type"] == "Battery" and supply["status"] == "Discharging" for supply in found)
    return "Mains" in online or (not is_used_up and any(kind.startswith("USB") for kind in online))


def _supplies(folder: Path) -> list[dict[str, str]]:
    return [
        {name: _text(supply / name) for name in ("type", "scope", "online", "status")} for supply in folder.glob("*")
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
