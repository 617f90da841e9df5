"""The README's tables against the code: what it lists exists, and what exists is listed."""

import re
from pathlib import Path

from semantica_daemon.config import Config, DaemonSection, LimitsSection, MachineSection
from semantica_daemon.model.queue import QueueRules
from semantica_daemon.rpc.methods import TABLE

README = (Path(__file__).parent.parent / "README.md").read_text()


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_column(title: str) -> list[str]:
    rows = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_every_method_is_in_the_table_and_no_other() -> None:
    assert sorted(first_column("Methods")) == sorted(method.name for method in TABLE)


def test_every_setting_is_in_the_table_and_no_other() -> None:
    daemon = {f"daemon.{name}" for name in DaemonSection.__struct_fields__}
    queues = {f"queues.NAME.{name}" for name in QueueRules.__struct_fields__}
    limits = {f"limits.{name}" for name in LimitsSection.__struct_fields__}
    machine = {f"machine.{name}" for name in MachineSection.__struct_fields__}
    assert set(Config.__struct_fields__) == {"daemon", "queues", "machine", "limits", "handlers", "handler_path"}
    named = {"handlers.JOB_TYPE", "handler_path"}
    assert set(first_column("Settings")) == daemon | queues | machine | limits | named


def test_every_script_it_names_is_there() -> None:
    for name in re.findall(r"\./scripts/(\w+)", README):
        assert (Path(__file__).parent.parent / "scripts" / name).is_file(), name
