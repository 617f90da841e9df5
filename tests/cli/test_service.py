"""`semantica service` with a real systemd: the daemon is there after a login, a crash and a stop."""

import json
import os
import plistlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semantica_daemon.client import unit
from tests.cli.user_systemd import UserSystemd
from tests.harness import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALLED = Path(sys.executable).parent / "semantica"


@pytest.fixture
def systemd(empty_home: Path) -> Iterator[UserSystemd]:
    made = UserSystemd(empty_home)
    yield made
    made.remove()


def semantica(systemd: UserSystemd, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [INSTALLED, *words],
        env=systemd.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


def pid(systemd: UserSystemd) -> int:
    return int(json.loads(semantica(systemd, "rpc", "admin.stats").splitlines()[0])["system"]["pid"])


def main_pid(systemd: UserSystemd) -> int:
    return int(systemd("show", "--property=MainPID", "--value", "semantica.service"))


def test_an_installed_service_is_there_after_a_login_a_crash_and_a_stop(systemd: UserSystemd) -> None:
    systemd.login()
    first = semantica(systemd, "status")
    assert "started the daemon (process" in first
    assert "systemd runs the daemon" in semantica(systemd, "service", "install")
    served = pid(systemd)
    assert served == main_pid(systemd), "the daemon that ran before has made room for it"
    found = json.loads(semantica(systemd, "service", "status", "--json"))
    assert (found["installed"], found["state"], found["starts_at_login"], found["up_to_date"]) == (
        True,
        "active",
        True,
        True,
    )

    os.kill(served, signal.SIGKILL)
    assert pid(systemd) not in (0, served), "the client that connects meanwhile is served by the next daemon"

    assert "has stopped" in semantica(systemd, "stop")
    assert main_pid(systemd) == 0
    assert "no daemon is running" in semantica(systemd, "status", "--no-autostart", code=69)
    assert "no daemon is running" in semantica(systemd, "stop")
    assert main_pid(systemd) == 0, "neither of them has started it"
    assert pid(systemd) == main_pid(systemd) != 0, "the next command starts it"

    systemd.logout()
    systemd.login()
    assert main_pid(systemd) != 0, "it starts without a command"
    assert pid(systemd) == main_pid(systemd)

    semantica(systemd, "service", "uninstall")
    assert list(systemd.home.glob(".config/systemd/user/semantica*")) == []
    assert main_pid(systemd) == 0
    assert "started the daemon (process" in semantica(systemd, "status")
    semantica(systemd, "stop")


def test_a_service_that_cannot_start_says_why(systemd: UserSystemd) -> None:
    systemd.login()
    semantica(systemd, "service", "install")
    semantica(systemd, "stop")
    config = systemd.home / ".config" / "semantica" / "config.toml"
    config.parent.mkdir()
    config.write_text("[daemon]\nmax_slot = 3\n")
    assert "`semantica service status` shows why" in semantica(systemd, "status", code=69)
    assert "did you mean max_slots?" in semantica(systemd, "service", "status")
    assert "did you mean max_slots?" in semantica(systemd, "status", code=78)
    config.unlink()
    assert pid(systemd) == main_pid(systemd) != 0, "its failures are forgotten"


def test_a_daemon_with_running_jobs_is_left_alone_until_it_is_restarted(systemd: UserSystemd) -> None:
    systemd.login()
    semantica(systemd, "add", "--", "sleep", "60")
    before = pid(systemd)
    assert "1 running job: `semantica restart`" in semantica(systemd, "service", "install")
    assert pid(systemd) == before
    assert "started the daemon (service" in semantica(systemd, "restart")
    assert pid(systemd) == main_pid(systemd) != before


def test_a_service_with_a_missing_or_unreadable_file_can_be_seen_and_uninstalled(systemd: UserSystemd) -> None:
    systemd.login()
    semantica(systemd, "service", "install")
    unit = systemd.home / ".config" / "systemd" / "user" / "semantica.service"
    unit.write_bytes(b"\xff")
    assert "the files are of another version" in semantica(systemd, "service", "status")
    unit.unlink()
    assert "uninstalled" in semantica(systemd, "service", "uninstall")
    assert list(systemd.home.glob(".config/systemd/user/semantica*")) == []


@pytest.fixture
def alone(empty_home: Path) -> UserSystemd:
    """The environment of a user for whom no systemd is running."""
    return UserSystemd(empty_home)


def test_without_systemd_nothing_is_installed(alone: UserSystemd) -> None:
    assert "does not answer" in semantica(alone, "service", "install", code=75)
    assert "no service is installed" in semantica(alone, "service", "uninstall", code=69)
    assert "no service is installed" in semantica(alone, "service")
    assert list(alone.home.iterdir()) == [alone.home / "run"]


def test_print_shows_every_command_of_an_uninstall(alone: UserSystemd) -> None:
    *stop, remove, remove_other, reload = semantica(alone, "service", "uninstall", "--print").splitlines()
    assert stop == ["systemctl --user disable --quiet --now semantica.socket semantica.service"]
    assert [line.partition(" ")[0] for line in (remove, remove_other)] == ["rm", "rm"]
    assert reload == "systemctl --user daemon-reload"


def test_a_manager_that_hangs_delays_a_start_only_for_a_moment(
    alone: UserSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon is started without it."""
    hanging = alone.home / "bin" / "systemctl"
    hanging.parent.mkdir()
    hanging.write_text("#!/bin/sh\nexec sleep 600\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("PATH", str(hanging.parent), prepend=":")
    monkeypatch.setattr(unit, "QUERY_TIMEOUT_S", 0.1)
    assert unit.is_reachable() is False
    assert unit.properties("StatusText") == {}


def test_the_printed_units_pass_systemd_analyze(alone: UserSystemd) -> None:
    """Also with a sandbox, and with paths that systemd has to be given in quotes."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT TESTED: systemd-analyze is not installed")
    alone.env["SEMANTICA_HOME"] = str(alone.home / 'a "home" of 100% $HOME')
    printed = semantica(alone, "service", "install", "--print")
    files = {text.partition("\n")[0]: text.partition("\n")[2] for text in printed.split("# /")[1:]}
    folder = alone.home / "units"
    (folder / "semantica.service.d").mkdir(parents=True)
    shutil.copy(ROOT / "systemd" / "strict.conf", folder / "semantica.service.d")
    for name, text in files.items():
        (folder / Path(name).name).write_text(text)
    units = [str(folder / Path(name).name) for name in files]
    command = ["systemd-analyze", "--user", "verify", "--man=no", *units]
    done = subprocess.run(command, env=alone.env, capture_output=True, text=True)
    assert [Path(name).name for name in files] == ["semantica.socket", "semantica.service"]
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert not (alone.home / ".config").exists(), "--print changes nothing"


PRINT_ON_MACOS = """
import os, sys
sys.platform = "darwin"
from semantica_daemon import paths
from semantica_daemon.cli import unit_files
(text,) = unit_files.rendered(paths.find(os.environ)).values()
print(text)
"""


def test_the_agent_for_launchd_is_valid_and_names_this_installation(alone: UserSystemd) -> None:
    """launchd itself is only on macOS."""
    command = [sys.executable, "-c", PRINT_ON_MACOS]
    found = plistlib.loads(subprocess.run(command, env=alone.env, capture_output=True, check=True).stdout)
    assert found["Label"] == "semantica.daemon"
    assert found["ProgramArguments"][:4] == [sys.executable, "-P", "-m", "semantica_daemon"]
    assert found["EnvironmentVariables"]["PATH"].startswith("/usr/local/bin:")
    assert found["EnvironmentVariables"]["SEMANTICA_SOCKET"].endswith("/daemon.sock")
    assert (found["KeepAlive"], found["Umask"], found["ProcessType"]) == ({"SuccessfulExit": False}, 0o077, "Adaptive")


def test_restart_gives_another_daemon_and_keeps_what_waits(alone: UserSystemd) -> None:
    first = json.loads(semantica(alone, "restart", "--json").splitlines()[0])
    job_id = semantica(alone, "add", "-q", "--after", "1h", "--", "true").strip()
    second = json.loads(semantica(alone, "restart", "--json").splitlines()[0])
    assert (first["stopped"], second["stopped"]) == (False, True)
    assert pid(alone) == second["pid"] != first["pid"]
    assert job_id in semantica(alone, "list", "-q")
    semantica(alone, "stop")


def test_restart_reports_the_new_daemon_once(alone: UserSystemd) -> None:
    semantica(alone, "restart")
    (report,) = semantica(alone, "restart").splitlines()
    assert "started the daemon (process" in report
    semantica(alone, "stop")


def test_logs_shows_the_last_lines_of_the_daemons_log(alone: UserSystemd) -> None:
    assert "no log yet" in semantica(alone, "service", "logs", code=69)
    semantica(alone, "status")
    semantica(alone, "stop")
    (last,) = semantica(alone, "service", "logs", "-n", "1").splitlines()
    assert json.loads(last)["event"] == "stopped"
