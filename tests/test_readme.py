"""The tables of docs/settings.md and docs/semantics.md, and the names in the README, against the code: what they list
exists, what exists is listed."""

import json
import re
from pathlib import Path

import msgspec

from semantica_daemon.config import Config, DaemonSection, LimitsSection
from semantica_daemon.model import state
from semantica_daemon.model.machine import MachineRules
from semantica_daemon.model.queue import QueueRules, limits
from semantica_daemon.wire.methods import METHODS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
INSTALL = (ROOT / "docs" / "install.md").read_text()


def section(title: str, text: str = README) -> str:
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of every row below the head of the first table in it."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def first_column(text: str) -> list[str]:
    return [name for row in rows(text) for name in re.findall(r"`([^`]+)`", row[0])]


def test_every_method_it_names_exists() -> None:
    """docs/protocol.md lists all of them; `tests/test_protocol_docs.py` checks that."""
    families = {method.name.partition(".")[0] for method in METHODS if "." in method.name}
    named = re.findall(rf"\b((?:{'|'.join(families)})\.[a-z_]+)\b", section("For programs"))
    assert len(named) > 1
    assert set(named) <= {method.name for method in METHODS}


def test_every_setting_is_in_the_table_and_no_other() -> None:
    daemon = {f"daemon.{name}" for name in DaemonSection.__struct_fields__}
    queues = {f"queues.NAME.{name}" for name in QueueRules.__struct_fields__}
    limits = {f"limits.{name}" for name in LimitsSection.__struct_fields__}
    machine = {f"machine.{name}" for name in MachineRules.__struct_fields__}
    assert set(Config.__struct_fields__) == {"daemon", "queues", "machine", "limits", "handlers", "handler_path"}
    named = {"handlers.JOB_TYPE", "handler_path"}
    assert set(first_column(SETTINGS)) == daemon | queues | machine | limits | named


def test_every_default_is_the_one_in_force() -> None:
    shown = {row[0].strip("`"): row[1].strip("`") for row in rows(SETTINGS)}
    sections = {"daemon": DaemonSection(), "machine": MachineRules(), "limits": LimitsSection()}
    for key, section_in_force in sections.items():
        for name, value in msgspec.to_builtins(section_in_force).items():
            assert json.loads(shown[f"{key}.{name}"]) == value
    queue = limits(7, {}).default
    assert shown["queues.NAME.slots"] == "max_slots"
    assert queue.slots == 7
    assert json.loads(shown["queues.NAME.on_running"]) == queue.on_running
    assert json.loads(shown["queues.NAME.max_queued"]) == queue.max_queued
    assert json.loads(shown["handler_path"]) == Config().handler_path


def test_the_table_of_states_is_the_one_in_the_code() -> None:
    table = section("States", (ROOT / "docs" / "semantics.md").read_text())
    shown = {(origin, row[1]) for row in rows(table) for origin in row[0].split(", ")}
    assert shown == {(origin, to) for origin, into in state.TRANSITIONS.items() for to in into}


def test_every_script_it_names_is_there() -> None:
    for name in re.findall(r"\./scripts/(\w+)", README + INSTALL):
        assert (ROOT / "scripts" / name).is_file(), name
