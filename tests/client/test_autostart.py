"""Autostart, by real processes: one daemon for any number of clients, and a start that fails is reported at once."""

import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from semantica_daemon import paths
from semantica_daemon.client.connect import connect, connect_or_start
from semantica_daemon.client.errors import NoDaemon
from tests.client.callers import daemons, environment, let_go, no_daemon_left, ready
from tests.descriptors import descriptor_targets
from tests.engine import sample_handlers
from tests.engine.test_start import snapshot
from tests.harness import Process

AT_ONCE = 25
MINIMAL = {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "PYTHONUTF8", "SEMANTICA_HOME", "SEMANTICA_SOCKET"}
MINIMAL |= {f"XDG_{name}" for name in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "RUNTIME_DIR")}


@pytest.fixture
def home(empty_home: Path) -> Path:
    """Without a database: these tests are about starting, which includes the migrations."""
    return empty_home


@pytest.fixture(autouse=True)
def _tidy(home: Path) -> Iterator[None]:
    with no_daemon_left(home):
        yield


def _nothing(home: Path) -> None:
    """A home that nobody has used yet."""


def _killed(home: Path) -> None:
    """kill -9: its socket is still there, and nobody behind it."""
    Process(home).start().kill()
    assert (home / "daemon.sock").exists()


def _leaving(home: Path) -> None:
    """Gone from its socket, but with the lock until the grace of a run is over."""
    (home / "config.toml").write_text(sample_handlers.config(grace_ms=4000))
    process = Process(home).start()
    process.call("job.enqueue", job_type="deaf")
    while process.call("admin.stats")["queues"][0]["running"] == 0:
        time.sleep(0.01)
    process.signal(signal.SIGTERM)
    while process.socket.exists():
        time.sleep(0.01)
    threading.Thread(target=lambda: process.process and process.process.wait()).start()


@pytest.mark.parametrize("before", [_nothing, _killed, _leaving])
def test_of_many_clients_at_once_exactly_one_starts_a_daemon(home: Path, before: Callable[[Path], None]) -> None:
    many = ready(AT_ONCE, home, SEMANTICA_HOME=str(home))
    before(home)
    started = _times_started(home)
    result = let_go(many)
    pids = {one.get("pid") for one in result}
    assert len(pids) == 1, result
    assert daemons(home) == list(pids)
    assert _times_started(home) == started + 1
    assert sum("started the daemon" in " ".join(one["reports"]) for one in result) == 1
    waited = [one for one in result if "still stopping" in " ".join(one["reports"])]
    assert len(waited) == (1 if before is _leaving else 0), "the client that starts it reports why it takes so long"


def _times_started(home: Path) -> int:
    if not (home / "meta.db").exists():
        return 0
    connection = sqlite3.connect(home / "meta.db")
    (found,) = connection.execute("SELECT count(*) FROM job_events WHERE event_type = 'daemon.started'").fetchone()
    connection.close()
    return int(found)


def test_without_autostart_nothing_is_started_or_made(home: Path) -> None:
    before = snapshot(home)
    (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home / "new")), start=False)
    assert (result["code"], "no daemon is running" in result["message"]) == (69, True)
    assert snapshot(home) == before
    _killed(home)
    (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home)), start=False)
    assert result["code"] == 69
    assert "left behind" in result["message"]
    assert daemons(home) == []


def test_without_autostart_the_daemon_that_runs_is_found(home: Path) -> None:
    with Process(home).start() as process:
        (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home)), start=False)
        assert process.process is not None
        assert result == {"pid": process.process.pid, "reports": []}


def test_a_start_that_fails_is_tried_once_and_reported_to_every_waiting_client(home: Path) -> None:
    (home / "config.toml").write_text("[daemon]\nmax_slot = 3\n")
    began = time.monotonic()
    result = let_go(ready(8, home, SEMANTICA_HOME=str(home)))
    assert time.monotonic() - began < 15
    assert {one["code"] for one in result} == {78}
    assert all("daemon.max_slot: did you mean max_slots?" in one["message"] for one in result)
    assert 1 <= (home / "daemon.log").read_text().count("did you mean max_slots?") < 8
    (home / "config.toml").unlink()
    (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home)))
    assert daemons(home) == [result["pid"]], "what has failed before is no reason to fail again"


def test_one_that_dies_while_it_starts_is_noticed_at_once(home: Path) -> None:
    began = time.monotonic()
    (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home), SEMANTICA_FAILPOINT="during_migration:kill:1"))
    assert time.monotonic() - began < 10
    assert (result["code"], "signal 9" in result["message"], "daemon.log" in result["message"]) == (70, True, True)


def test_a_folder_others_can_write_to_is_refused(home: Path) -> None:
    home.chmod(0o777)
    before = snapshot(home)
    (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home)))
    assert (result["code"], "written to by others" in result["message"]) == (77, True)
    assert snapshot(home) == before


def test_a_home_below_a_file_is_a_fault_of_the_configuration(home: Path) -> None:
    (home / "file").touch()
    (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home / "file" / "home")))
    assert (result["code"], str(home / "file") in result["message"]) == (78, True)


def test_a_job_whose_daemon_is_gone_starts_no_other(home: Path) -> None:
    """It knows the socket alone, and would start one with the folders of another."""
    inside = {"SEMANTICA_RUN_ID": "a run", "SEMANTICA_SOCKET": str(home / "daemon.sock"), "HOME": str(home)}
    (result,) = let_go(ready(1, home, **inside))
    assert (result["code"], "started this job is gone" in result["message"]) == (69, True)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("start", [True, False])
def test_a_socket_path_that_is_too_long_is_refused(home: Path, start: bool) -> None:
    with pytest.raises(NoDaemon, match="SEMANTICA_SOCKET") as refused:
        connect_or_start(paths.find({"SEMANTICA_HOME": str(home / ("s" * 100))}), start=start)
    assert refused.value.exit_code == 78
    assert list(home.iterdir()) == []


def test_a_socket_whose_folder_is_not_there_yet_gets_one(home: Path) -> None:
    (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home), SEMANTICA_SOCKET=str(home / "run" / "s")))
    assert daemons(home) == [result["pid"]]
    assert stat.S_IMODE((home / "run").stat().st_mode) == 0o700


def test_a_file_where_the_socket_should_be_is_named_and_left(home: Path) -> None:
    (home / "daemon.sock").write_text("mine")
    (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home)))
    assert (result["code"], "is no socket" in result["message"]) == (78, True)
    assert (home / "daemon.sock").read_text() == "mine"


def test_a_home_given_by_a_relative_path_is_the_callers(home: Path) -> None:
    """The daemon's own working directory is the root of the file system."""
    (result,) = let_go(ready(1, home, SEMANTICA_HOME="./in/here"))
    assert daemons(home / "in" / "here") == [result["pid"]]
    with no_daemon_left(home / "in" / "here"):
        assert os.readlink(f"/proc/{result['pid']}/cwd") == "/"


def test_nothing_of_the_first_callers_environment_stays_with_the_daemon(home: Path) -> None:
    theirs = {
        "VIRTUAL_ENV": "/v",
        "LANG": "xx",
        "LC_ALL": "C",
        "PATH": f"/theirs:{os.environ['PATH']}",
        "MY_TOKEN": "t",
    }
    theirs |= {"NOTIFY_SOCKET": "/n", "SSH_AUTH_SOCK": "/s", "PYTHONPATH": "/p", "XDG_CONFIG_HOME": str(home)}
    (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home), **theirs))
    found = environment(result["pid"])
    assert set(found) <= MINIMAL
    assert "/theirs" not in found["PATH"]
    assert (found["XDG_CONFIG_HOME"], found["SEMANTICA_HOME"]) == (str(home), str(home))


def test_a_job_gets_no_variable_of_the_client_that_started_the_daemon(home: Path) -> None:
    let_go(ready(1, home, SEMANTICA_HOME=str(home), VIRTUAL_ENV="the first", LANG="the first", EDITOR="the first"))
    request = {"job_type": "env", "execution_mode": "SUBPROCESS", "payload": {"argv": ["env"], "cwd": "/"}}
    job_id = Process(home).call("job.enqueue", **request, env_vars={"LANG": "mine"})["job_id"]
    assert Process(home).call("job.wait", job_id=job_id)["job"]["state"] == "DONE"
    output = Process(home).call("job.logs", job_id=job_id)["chunk"]
    assert "LANG=mine\n" in output
    assert "the first" not in output


def test_the_daemon_is_independent_of_the_client_that_started_it(home: Path) -> None:
    """Its own session and umask; of the caller's descriptors it has none."""
    (result,) = let_go(ready(1, home, SEMANTICA_HOME=str(home)))
    pid = result["pid"]
    assert os.getsid(pid) == pid
    assert "Umask:\t0077" in Path(f"/proc/{pid}/status").read_text()
    opened = descriptor_targets(pid)
    assert opened[0] == "/dev/null"
    assert opened[1] == opened[2] == str(home / "daemon.log")
    assert not [name for name in opened.values() if name.endswith("start.lock")]
    while any(name.startswith("pipe:") for name in descriptor_targets(pid).values()):
        time.sleep(0.01)  # it closes the pipe of its readiness after the client has read from it


def test_folders_no_environment_leads_to_are_refused(home: Path) -> None:
    where = paths.find({"SEMANTICA_HOME": str(home)})
    where.database = str(home / "other.db")
    with pytest.raises(NoDaemon) as refused:
        connect_or_start(where)
    assert refused.value.exit_code == 78
    assert daemons(home) == []


def test_a_daemon_too_busy_to_take_a_connection_is_waited_for(home: Path) -> None:
    path = str(home / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = [_knock(path)]
        while waiting[-1] is not None:
            waiting.append(_knock(path))
        found: list[socket.socket] = []
        thread = threading.Thread(target=lambda: found.append(connect(path)))
        thread.start()
        thread.join(0.2)
        assert found == []
        taken = [listener.accept()[0] for _ in waiting]
        thread.join(5)
        assert len(found) == 1
        for one in [*found, *taken, *waiting]:
            if one is not None:
                one.close()


def _knock(path: str) -> socket.socket | None:
    """A connection nobody has taken yet; None when no more can wait."""
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    try:
        connection.connect(path)
    except BlockingIOError:
        connection.close()
        return None
    return connection


def test_another_users_daemon_is_refused(home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    home.chmod(0o777)
    listen = (
        "import os, socket, sys; os.setuid(12345); s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n"
        "print('there', flush=True); sys.stdin.read()"
    )
    path = str(home / "s")
    with subprocess.Popen(
        [sys.executable, "-c", listen, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as foreign:
        assert foreign.stdout is not None
        assert foreign.stdout.readline() == b"there\n"
        with pytest.raises(NoDaemon, match="daemon of user 12345") as refused:
            connect_or_start(paths.find({"SEMANTICA_HOME": str(home), "SEMANTICA_SOCKET": path}))
        foreign.kill()
    assert refused.value.exit_code == 77
