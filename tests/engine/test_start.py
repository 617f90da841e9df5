"""Starting a real process: exactly one runs, and what cannot be used is refused by a clear sentence and a code."""

import ctypes
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from semantica_daemon import config
from semantica_daemon.errors import StartRefused
from tests.cases import each_case
from tests.engine import sample_handlers
from tests.harness import PATIENCE_S, Process

CAP_DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24


def without_privilege() -> None:
    """In the child, before exec: root too must meet the permissions of files. Others have no such privilege anyway."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def semanticad(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """One start that is expected to leave by itself."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SEMANTICA_")}
    command = [sys.executable, "-m", "semantica_daemon", *arguments]
    return subprocess.run(
        command, env=clean | env, capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=without_privilege
    )  # fmt: skip


def refused(code: int, *words: str, **env: str) -> None:
    """It leaves with the code and one sentence on stderr that holds the words; no traceback."""
    left = semanticad(**env)
    sentences = [line for line in left.stderr.splitlines() if line.startswith("semanticad: ")]
    assert left.returncode == code, left.stderr
    assert len(sentences) == 1, left.stderr
    assert "Traceback" not in left.stderr
    for word in words:
        assert word in sentences[0]


def snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for path in [folder, *folder.rglob("*")]:
        seen = path.lstat()
        found[str(path)] = (seen.st_mode, seen.st_size, seen.st_mtime_ns)
    return found


@pytest.fixture
def home(empty_home: Path) -> Path:
    """Without a database: these tests are about starting, which includes the migrations."""
    return empty_home


@pytest.fixture
def process(home: Path) -> Iterator[Process]:
    with Process(home) as one:
        yield one


@each_case(
    ("text", "words"),
    [
        ("[daemon]\nmax_slot = 3\n", ["daemon.max_slot", "max_slots"]),
        ("[deamon]\n", ["deamon", "daemon"]),
        ("[queues.fast]\nslot = 1\n", ["slot", "slots"]),
        ('[daemon]\nmax_slots = "3"\n', ["daemon.max_slots: must be a number without quotes"]),
        ('[queues.fast]\nslots = "3"\n', ["queues.NAME.slots: must be a number without quotes"]),
        ("[daemon]\nmax_slots = -1\n", ["daemon.max_slots: must be 0 or more"]),
        ("[limits]\nlog_bytes = 65535\n", ["limits.log_bytes: must be 65536 or more"]),
        ('[daemon]\ndurability = "some"\n', ["daemon.durability: 'some' is not one of 'normal', 'full'"]),
        ('[queues.fast]\non_running = "stop"\n', ["on_running: 'stop' is not one of 'finish', 'cancel'"]),
        ("[queues.fast]\nslots = -1\n", ["fast"]),
        ('[queues."no spaces"]\nslots = 1\n', ["no spaces"]),
        ('[daemon]\nsecret_words = ["MY_URL"]\n', ["daemon.secret_words: 'MY_URL'", "without _"]),
        ("[daemon\n", ["TOML"]),
    ],
)
def test_a_bad_config_is_refused_with_the_key_and_the_nearest_name(home: Path, text: str, words: list[str]) -> None:
    (home / "config.toml").write_text(text)
    with pytest.raises(StartRefused) as refused:
        config.load(home / "config.toml")
    assert refused.value.exit_code == 78
    for word in ("config.toml", *words):
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[daemon]\nmax_slot = 3\n", ["config.toml", "daemon.max_slot", "max_slots"]),
        ('[handlers]\nBAD = "no_such_module:f"\n', ["BAD", "no_such_module"]),
        ('handler_path = ["plugins"]\n[handlers]\nBAD = "leaving:f"\n', ["BAD", "SystemExit"]),
    ],
)
def test_a_daemon_does_not_start_with_a_bad_config(home: Path, text: str, words: list[str]) -> None:
    (home / "plugins").mkdir()
    (home / "plugins" / "leaving.py").write_text("raise SystemExit(0)")
    (home / "config.toml").write_text(text)
    refused(78, *words, SEMANTICA_HOME=str(home))
    assert not (home / "daemon.sock").exists()


def test_a_config_that_cannot_be_decoded_is_refused(home: Path) -> None:
    (home / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(StartRefused, match=r"config\.toml"):
        config.load(home / "config.toml")


def test_another_config_can_be_named(home: Path) -> None:
    other = home / "other.toml"
    other.write_text("[daemon]\nmax_slot = 3\n")
    left = semanticad("--config", str(other), SEMANTICA_HOME=str(home))
    assert (left.returncode, "other.toml" in left.stderr) == (78, True)


def test_a_socket_path_that_is_too_long_is_refused(home: Path) -> None:
    long = home / ("s" * 100)
    refused(78, "107" if sys.platform == "linux" else "103", "SEMANTICA_SOCKET", SEMANTICA_HOME=str(long))


def test_a_schema_newer_than_the_daemon_is_refused_and_left_alone(process: Process) -> None:
    process.start().stop()
    connection = sqlite3.connect(process.home / "meta.db")
    connection.execute("INSERT INTO schema_version VALUES (999, 0, 'from the future', 'x')")
    connection.commit()
    connection.close()
    before = (process.home / "meta.db").read_bytes()
    refused(78, "999", SEMANTICA_HOME=str(process.home))
    assert (process.home / "meta.db").read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(home: Path) -> None:
    (home / "meta.db").write_bytes(b"this is no database at all, but long enough to look like one" * 100)
    before = (home / "meta.db").read_bytes()
    refused(78, "meta.db", SEMANTICA_HOME=str(home))
    assert (home / "meta.db").read_bytes() == before


def _read_only(home: Path) -> Path:
    home.chmod(0o500)
    return home


def _world_writable(home: Path) -> Path:
    home.chmod(0o777)
    return home


def _linked(home: Path) -> Path:
    (home / "real").mkdir(mode=0o700)
    (home / "link").symlink_to(home / "real")
    return home / "link"


def _below_a_file(home: Path) -> Path:
    (home / "file").touch()
    return home / "file" / "home"


def _a_file(home: Path) -> Path:
    (home / "file").touch()
    return home / "file"


def _foreign(home: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(home, 12_345, 12_345)
    return home


@pytest.mark.parametrize(
    ("make", "code"),
    [(_read_only, 77), (_world_writable, 77), (_linked, 77), (_foreign, 77), (_below_a_file, 78), (_a_file, 78)],
)
def test_a_folder_that_is_not_ours_alone_is_refused_and_nothing_is_touched(
    home: Path, make: Callable[[Path], Path], code: int
) -> None:
    folder = make(home)
    before = snapshot(home)
    refused(code, str(folder), SEMANTICA_HOME=str(folder))
    assert snapshot(home) == before


@pytest.mark.parametrize("name", ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"])
def test_a_config_state_or_data_folder_of_another_user_is_refused(home: Path, name: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can give a folder away (run this test as root)")
    folders = {each: str(home / each) for each in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    foreign = home / name / "semantica"
    foreign.mkdir(parents=True)
    (foreign / "config.toml").write_text("[daemon]\nmax_slots = 1\n")
    os.chown(foreign, 12_345, 12_345)
    before = snapshot(home)
    refused(77, str(foreign), "uid 12345", SEMANTICA_HOME="", XDG_RUNTIME_DIR=str(home), **folders)
    assert snapshot(home) == before


def test_a_world_writable_folder_of_the_socket_is_refused(home: Path) -> None:
    (home / "data").mkdir(mode=0o700)
    (home / "run").mkdir()
    (home / "run").chmod(0o777)
    before = stat.S_IMODE((home / "run").stat().st_mode)
    refused(77, SEMANTICA_HOME=str(home / "data"), SEMANTICA_SOCKET=str(home / "run" / "daemon.sock"))
    assert stat.S_IMODE((home / "run").stat().st_mode) == before
    assert list((home / "run").iterdir()) == []


def test_usage_version_and_help() -> None:
    wrong = semanticad("--no-such-option")
    assert (wrong.returncode, "usage" in wrong.stderr) == (64, True)
    version = semanticad("--version")
    assert (version.returncode, version.stdout.split()[0]) == (0, "semanticad")
    shown = semanticad("--help")
    assert shown.returncode == 0
    for word in ("--config", "SEMANTICA_HOME", "75", "77", "78"):
        assert word in shown.stdout


def test_rich_is_not_imported_at_the_start_but_by_a_handler_that_needs_it() -> None:
    code = "import sys, semantica_daemon.__main__; print('rich' in sys.modules); import rich.table"
    left = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (left.returncode, left.stdout) == (0, "False\n"), left.stderr


def test_of_eight_started_at_once_exactly_one_runs_and_the_others_say_why(home: Path) -> None:
    eight = [Process(home).start(ready=False) for _ in range(8)]
    try:
        left = _wait_for_seven(eight)
        assert sorted(process.process.returncode for process in left if process.process) == [75] * 7
        (winner,) = [process for process in eight if process not in left]
        winner.wait_ready()
        said = (home / "stderr.log").read_text()
        assert said.count("another semanticad already runs") == 7
        started = winner.call("event.list")["events"]
        assert [one["event_type"] for one in started] == ["daemon.started"]
        assert winner.stop() == 0
    finally:
        for process in eight:
            process.__exit__()


def _wait_for_seven(eight: list[Process]) -> list[Process]:
    until = time.monotonic() + 40
    while time.monotonic() < until:
        left = [one for one in eight if one.process is not None and one.process.poll() is not None]
        if len(left) >= 7:
            return left
        time.sleep(0.02)
    raise AssertionError("more than one is still there")


def test_a_second_daemon_touches_nothing(process: Process) -> None:
    process.start()
    job_id = process.call("job.enqueue", job_type="semantica.sleep", payload={"ms": 60_000})["job_id"]
    inode = process.socket.stat().st_ino
    refused(75, str(process.home), SEMANTICA_HOME=str(process.home))
    assert process.socket.stat().st_ino == inode
    assert process.call("job.get", job_id=job_id)["state"] == "RUNNING"


@pytest.mark.parametrize("migrated", [False, True])
def test_a_database_held_by_another_is_no_fault_of_the_configuration(process: Process, migrated: bool) -> None:
    """Tried again later it works, so the code says temporary: 78 would keep a service from being restarted."""
    if migrated:
        process.start().stop()
    holder = sqlite3.connect(process.home / "meta.db", isolation_level=None)
    holder.execute("PRAGMA journal_mode = WAL")
    holder.execute("BEGIN IMMEDIATE")
    refused(75, "meta.db", SEMANTICA_HOME=str(process.home))
    holder.close()


def test_folder_socket_and_database_are_for_us_alone(home: Path) -> None:
    made = home / "new"
    process = Process(home, SEMANTICA_HOME=str(made))
    process.socket = made / "daemon.sock"
    with process.start():
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()}
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        assert modes["daemon.sock"] == 0o600
        assert {"meta.db", "daemon.lock"} <= modes.keys()
        assert all(mode & 0o077 == 0 for mode in modes.values())


def test_a_socket_left_behind_by_a_dead_daemon_is_replaced(process: Process) -> None:
    process.start().kill()
    assert process.socket.exists()
    process.start()
    assert process.call("admin.health")["status"] == "ready"


def test_logs_are_json_lines_without_payloads(process: Process) -> None:
    text = sample_handlers.config(more='log_level = "debug"\n')
    (process.home / "config.toml").write_text(text)
    process.start()
    secret = "open sesame"
    for job_type, payload in (("semantica.echo", {"key": secret}), ("fail", {"how": "plain", "key": secret})):
        job_id = process.call("job.enqueue", job_type=job_type, payload=payload)["job_id"]
        assert process.call("job.wait", job_id=job_id)["finished"]
    with pytest.raises(Exception, match="E_PAYLOAD"):
        process.call("job.enqueue", job_type="typed", payload={"title": 1, "key": secret})
    process.signal(signal.SIGTERM)
    assert process.process is not None
    assert process.process.wait(40) == 0
    lines = [json.loads(line) for line in (process.home / "stderr.log").read_text().splitlines()]
    assert {"ready", "job_done", "job_failed", "stopping", "stopped"} <= {line["event"] for line in lines}
    assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)
    assert secret not in (process.home / "stderr.log").read_text()
