"""`semantica config reload`, and the commands that say that the file is newer than the settings in force."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import Line
from tests.harness import Process


@pytest.fixture
def own(home: Path) -> Iterator[Line]:
    """A daemon whose config file the test changes."""
    with Process(home) as daemon:
        daemon.start()
        yield Line(home, home)


def test_reload_prints_what_has_changed_and_names_what_needs_a_restart(own: Line, home: Path) -> None:
    (home / "config.toml").write_text('[daemon]\nmax_slots = 3\nlog_format = "json"\n')
    result = own("config", "reload")
    assert (result.code, result.out) == (0, "daemon.max_slots\n")
    assert "1 setting changed" in result.err
    assert "these settings need `semantica restart`: daemon.log_format" in result.err
    assert "3 slots" in own("status").out
    assert "no setting has changed" in own("config", "reload").err
    assert "these settings need `semantica restart`: daemon.log_format" in own("config").err


def test_events_have_each_changed_setting_once(own: Line, home: Path) -> None:
    (home / "config.toml").write_text("[daemon]\nmax_slots = 3\n")
    own("config", "reload")
    started, reloaded = own("events", "--type", "daemon.started", "--type", "daemon.reloaded").out.splitlines()
    assert started.endswith(" is ready")
    assert reloaded.endswith("the config file was read again; changed: daemon.max_slots")
    (home / "config.toml").write_text('[daemon]\nlog_format = "json"\n')
    own("config", "reload")
    assert own("events", "-n", "1").out.endswith(' needs_restart=["daemon.log_format"]\n')


def test_a_newer_file_is_named_by_config_status_and_doctor(own: Line, home: Path) -> None:
    (home / "config.toml").write_text("[daemon]\nmax_slots = 3\n")
    sentence = "the config file has changed since it was read; `semantica config reload` uses it"
    assert sentence in own("config").err
    assert sentence in own("status").err
    assert f"warn  configuration: {sentence}" in own("doctor").out
    own("config", "reload")
    assert sentence not in own("config").err + own("status").err


def test_a_broken_file_is_refused_with_its_mistake_and_the_old_settings_stay(own: Line, home: Path) -> None:
    (home / "config.toml").write_text("[daemon]\nmax_slot = 3\n")
    refused = own("config", "reload")
    assert (refused.code, refused.out) == (78, "")
    assert "did you mean max_slots?" in refused.err
    assert "the settings stay as they were" in refused.err
    assert own("config", "--json").json["daemon"]["max_slots"] == 0
    assert "the last time it was refused" in own("status").err
