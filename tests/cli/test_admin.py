"""The daemon from outside: `rpc`, `paths`, `config`, `stop`, `doctor`, `version`, with and without one."""

import fcntl
import json
import os
import re
import signal
from pathlib import Path

import pytest

from semantica_daemon import PROTOCOL, VERSION, paths
from tests.cases import each_case
from tests.cli.command_line import COMMAND, Line
from tests.client.callers import no_daemon_left
from tests.harness import Process


@pytest.fixture
def home(empty_home: Path) -> Path:
    """Without a database: most of these commands must not create one."""
    return empty_home


def test_rpc_calls_any_method(line: Line, daemon: Process) -> None:
    assert line("rpc", "admin.health").json["status"] == "ready"
    ack = line("rpc", "job.enqueue", '{"job_type": "semantica.noop"}').json
    assert line("rpc", "job.wait", "-", stdin=json.dumps({"job_id": ack["job_id"]})).json["finished"] is True
    assert line("rpc", "--json", "admin.health", "-q").json["status"] == "ready"
    assert line("--no-autostart", "rpc", "admin.health").json["status"] == "ready"


@each_case(
    ("words", "code", "sentence"),
    [
        (("job.lst",), 64, "did you mean job.list?"),
        (("frobnicate",), 64, "`semantica rpc rpc.discover` lists the methods"),
        (("job.get", '{"job_id": "00000000"}'), 65, "no job 00000000"),
        (("job.get",), 64, "job_id"),
        (("job.get", "{"), 65, "not JSON"),
        (("job.get", "[]"), 65, "not a JSON object"),
        (("job.get", '{"job_id": "0000", "x": 1}'), 64, "job.get has no field x"),
        (("job.export",), 64, "not supported by this version"),
        (
            ("job.enqueue", '{"job_type": "x", "max_wait_ms": 1}'),
            64,
            "a longest wait needs a debounce time - at `$.max_wait_ms`",
        ),
        ((), 64, "METHOD"),
        (("a", "b", "c"), 64, "c is not known here"),
    ],
)
def test_rpc_reports_what_is_wrong(line: Line, words: tuple[str, ...], code: int, sentence: str) -> None:
    result = line("rpc", *words)
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err


def test_paths_need_no_daemon(empty_home: Path, tmp_path: Path) -> None:
    line = Line(empty_home, tmp_path)
    found = paths.find({"SEMANTICA_HOME": str(empty_home)})
    assert line("paths", "--json").json == found.as_dict()
    rows = [row.split(None, 1) for row in line("paths").out.splitlines()]
    assert dict(rows) == found.as_dict()
    assert os.listdir(empty_home) == []


def test_the_configuration_in_force_is_shown(line: Line, daemon: Process) -> None:
    result = line("config")
    assert re.search(r"^daemon\.max_slots +2$", result.out, re.MULTILINE)
    assert str(daemon.home / "config.toml") in result.err
    assert line("config", "--json").json == daemon.call("admin.config")
    assert line("config", "path").out == f"{daemon.home}/config.toml\n"
    assert line("config", "path", "--json").json == {"path": f"{daemon.home}/config.toml"}
    assert line("config", "edit").code == 64


def test_the_version_needs_no_daemon(home: Path, tmp_path: Path) -> None:
    line = Line(home, tmp_path)
    assert line("version").out == line("--version").out == f"semantica {VERSION} (protocol {PROTOCOL})\n"
    assert line("version", "--json").json == {"version": VERSION, "protocol": PROTOCOL}


def test_stop_comes_back_when_the_daemon_is_gone(home: Path, tmp_path: Path) -> None:
    line = Line(home, tmp_path)
    with Process(home).start() as process:
        line("add", "--", "sleep", "60")
        line("wait", "@last", "--timeout", "10ms")
        result = line("stop")
        assert process.process is not None
        with open(home / "daemon.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert (result.code, result.out) == (0, "")
        assert "ending 1 running job (SIGTERM, SIGKILL after 5s)…" in result.err
        assert "the daemon has stopped" in result.err
        assert process.process.wait(40) == 0
    again = line("stop")
    assert (again.code, again.out) == (0, "")
    assert "no daemon is running" in again.err
    assert line("stop", "--json").json == {"stopped": False}


def test_stop_can_give_up_waiting(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text("[daemon]\ngrace_ms = 1500\n")
    line = Line(home, tmp_path)
    with Process(home).start() as process:
        begun = line.start("run", "--", "sh", "-c", "trap '' TERM; echo begun; while :; do sleep 0.1; done")
        begun.until("begun")
        result = line("stop", "--timeout", "100ms")
        assert result.code == 124
        assert "still running" in result.err
        other = line("stop", "--timeout", "20s")
        assert (other.code, process.process and process.process.wait(5)) == (0, 0)
        ended = begun.result()
        assert ended.code in (1, 69)  # the end of the job was reported, or only that the daemon is gone
        assert "daemon" in ended.err


def test_without_autostart_there_is_no_daemon(empty_home: Path, tmp_path: Path) -> None:
    line = Line(empty_home, tmp_path)
    for words in (
        ("run", "--", "true"),
        ("list",),
        ("rpc", "admin.health"),
        ("status",),
        ("config",),
        ("logs", "@last"),
    ):
        result = line(words[0], "--no-autostart", *words[1:])
        assert (result.code, result.out) == (69, ""), words
        assert "no daemon is running" in result.err
    assert not (empty_home / "meta.db").exists()


def test_the_first_command_starts_the_daemon(home: Path, tmp_path: Path) -> None:
    line = Line(home, tmp_path)
    with no_daemon_left(home):
        first = line("run", "--", "echo", "hello")
        assert (first.code, first.out) == (0, "hello\n")
        assert "started the daemon" in first.err
        second = line("run", "--", "echo", "again")
        assert second == (0, "again\n", "")
        assert line("stop", "-q") == (0, "", "")


def test_quiet_starts_it_without_a_word(home: Path, tmp_path: Path) -> None:
    line = Line(home, tmp_path)
    with no_daemon_left(home):
        assert line("run", "-q", "--", "echo", "hello") == (0, "hello\n", "")
        line("stop")


def _verdicts(text: str) -> dict[str, str]:
    return {match[2]: match[1] for match in re.finditer(r"^(ok|warn|FAIL) +([^:]+):", text, re.MULTILINE)}


def test_the_doctor_finds_a_healthy_daemon_healthy(line: Line) -> None:
    result = line("doctor")
    found = _verdicts(result.out)
    assert (result.code, result.err, set(found.values())) == (0, "", {"ok"})
    assert {"python", "data folder", "socket path", "config file", "disk", "daemon", "version", "database"} <= set(
        found
    )
    assert {"a handler", "a command", "processes"} <= set(found)
    assert "without cgroups: " in result.out
    assert line("doctor", "-q") == (0, "", "")
    checks = line("doctor", "--json").json["checks"]
    assert {check["verdict"] for check in checks} == {"ok"}
    assert set(checks[0]) == {"verdict", "check", "seen", "hint"}


def test_the_jobs_of_the_doctor_are_listed_only_with_their_queue(line: Line) -> None:
    assert "in its queue" in line("doctor").out
    of_doctor = line("list", "-q", "-Q", "semantica.doctor").out.split()
    assert len(of_doctor) >= 2
    assert not set(of_doctor) & set(line("list", "-q").out.split())
    assert not set(of_doctor) & {job["job_id"] for job in line("status", "--json").json["ended"]}
    assert "semantica.doctor" not in line("status").out


def test_the_doctor_starts_nothing_by_itself(empty_home: Path, tmp_path: Path) -> None:
    line = Line(empty_home, tmp_path)
    result = line("doctor")
    assert (result.code, _verdicts(result.out)["daemon"]) == (0, "warn")
    assert "semantica doctor --start" in result.out
    assert os.listdir(empty_home) == []
    with no_daemon_left(empty_home):
        started = line("doctor", "--start")
        assert (started.code, _verdicts(started.out)["a command"]) == (0, "ok")
        line("stop")


def _no_toml(home: Path) -> None:
    (home / "config.toml").write_text("[daemon\n")


def _wrong_key(home: Path) -> None:
    (home / "config.toml").write_text("[daemon]\nmax_slot = 1\n")


def _open_folder(home: Path) -> None:
    home.chmod(0o777)


def _not_a_folder(home: Path) -> None:
    home.rmdir()
    home.write_text("")


@pytest.mark.parametrize(
    ("harm", "check", "sentence"),
    [
        (_no_toml, "config file", "config.toml"),
        (_wrong_key, "config file", "did you mean max_slots?"),
        (_open_folder, "data folder", "others can write"),
        (_not_a_folder, "data folder", "is not a folder"),
    ],
)  # fmt: skip
def test_the_doctor_works_where_no_daemon_can(
    empty_home: Path, tmp_path: Path, harm: object, check: str, sentence: str
) -> None:
    assert callable(harm)
    harm(empty_home)
    result = Line(empty_home, tmp_path)("doctor", "--start")
    empty_home.unlink() if empty_home.is_file() else empty_home.chmod(0o700)
    assert (result.code, _verdicts(result.out)[check]) == (1, "FAIL")
    assert sentence in result.out
    assert "→ " in result.out
    assert "Traceback" not in result.err


def test_the_doctor_measures_the_socket_path(home: Path, tmp_path: Path) -> None:
    result = Line(home, tmp_path, SEMANTICA_SOCKET=f"/tmp/{'x' * 120}")("doctor")
    assert (result.code, _verdicts(result.out)["socket path"]) == (1, "FAIL")
    assert "SEMANTICA_SOCKET" in result.out


def test_the_doctor_names_a_daemon_that_does_not_answer(home: Path, tmp_path: Path) -> None:
    with open(home / "daemon.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = Line(home, tmp_path)("doctor")
    assert (result.code, _verdicts(result.out)["daemon"]) == (1, "FAIL")
    assert "does not answer" in result.out


def test_the_doctor_warns_of_paused_queues(line: Line) -> None:
    line("queue", "pause", "--create", "some")
    result = line("doctor")
    assert (result.code, _verdicts(result.out)["queues"]) == (0, "warn")
    line("queue", "resume", "some")


def test_a_daemon_with_another_data_folder_is_noticed(line: Line, daemon: Process, tmp_path: Path) -> None:
    other = Line(tmp_path / "other", tmp_path, SEMANTICA_SOCKET=str(daemon.home / "daemon.sock"))
    sentence = f"uses the data folder {daemon.home}, this shell would use {tmp_path / 'other'}"
    assert sentence in other("status").err
    found = other("doctor")
    assert (found.code, _verdicts(found.out)["data folder"]) == (0, "warn")
    assert sentence in found.out
    assert "data folder" not in line("status").err + line("run", "--", *COMMAND, "status").err


def test_a_shell_with_another_home_is_warned_before_it_adds_a_job(home: Path, tmp_path: Path) -> None:
    mine = Line(home, tmp_path, SEMANTICA_HOME="", HOME=str(home / "a"), XDG_RUNTIME_DIR=str(home), XDG_DATA_HOME="")
    other = Line(home, tmp_path, **{**mine.env, "HOME": str(home / "b")})
    (home / "a").mkdir()
    try:
        assert mine("add", "--", "true").code == 0
        assert mine("run", "--", "true").err == ""
        for words in (("add", "--", "true"), ("run", "--", "true")):
            result = other(*words)
            assert result.code == 0
            assert f"uses the data folder {home}/a/.local/share/semantica, this shell would use {home}/b/" in result.err
            assert f"SEMANTICA_HOME={home}/b/.local/share/semantica gives this shell a daemon of its own" in result.err
    finally:
        mine("stop")


def test_a_stopped_daemon_is_not_waited_for_for_ever(home: Path, tmp_path: Path) -> None:
    """One that hangs: the wait of `stop` has its own limit."""
    line = Line(home, tmp_path)
    with Process(home).start() as process:
        (home / "daemon.sock").unlink()
        process.signal(signal.SIGSTOP)
        result = line("stop", "--timeout", "200ms")
        process.signal(signal.SIGCONT)
    assert result.code == 69
    assert "neither answers nor stops" in result.err


@each_case(
    ("words", "sentence"),
    [
        (("emit", "job:x"), "the key: only the daemon emits events that begin with semantica: or job:"),
        (("add", "--type", "semantica.sleep"), "the payload has no `ms`"),
        (("add", "--type", "semantica.sleep", "--payload", '{"ms": 1, "x": 1}'), "the payload takes no `x`"),
        (("rpc", "job.list", '{"foo": 1}'), "job.list has no field foo"),
        (("rpc", "job.enqueue", '{"payload": {}}'), "job.enqueue: the object has no `job_type`"),
    ],
)
def test_what_is_refused_is_one_plain_sentence(line: Line, words: tuple[str, ...], sentence: str) -> None:
    assert line(*words).err.splitlines()[0] == f"semantica: {sentence}"


def test_plan_says_that_a_job_would_start_now(line: Line) -> None:
    assert "starts  it would start now\n" in line("plan", "--", "true").out
    line("queue", "pause", "--create", "full")
    assert "starts  when a slot is free\n" in line("plan", "-Q", "full", "--", "true").out


def test_config_shows_the_defaults_of_queues_and_no_python(line: Line) -> None:
    shown = line("config").out
    assert "queues.default.slots       as daemon.max_slots\n" in shown
    assert "queues.default.max_queued  100000\n" in shown
    assert "[]" not in shown
