"""The environment of a command: what the daemon was started with, by the allow-list; over it what the caller sends;
over that our own words. And secrets: in the process, and nowhere else."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Process, RpcError
from tests.homes import files_in
from tests.rpc.wire import rows

ALLOWED = {
    "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "USER": "u", "SHELL": "/bin/sh", "LANG": "C.UTF-8",
    "LC_TIME": "C", "TERM": "dumb", "TZ": "UTC", "VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda",
    "SSH_AUTH_SOCK": "/agent", "DISPLAY": ":7", "WAYLAND_DISPLAY": "w", "XDG_CACHE_HOME": "/cache", "NVM_DIR": "/nvm",
}  # fmt: skip
NEVER = {
    "NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "LISTEN_FDS": "1", "LISTEN_PID": "1",
    "INVOCATION_ID": "1", "JOURNAL_STREAM": "1:2",
}  # fmt: skip
LEAKED = {"EDITOR_SESSION": "1", "GITHUB_TOKEN": "t", "PYTHONPATH": "/x", "LD_PRELOAD_NOT": "1", "OLDPWD": "/"}
SECRET = "a-very-secret-value-71f0"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Process]:
    home = Path(tempfile.mkdtemp(prefix="sem-"))
    with Process(home, **ALLOWED, **NEVER, **LEAKED) as process:
        yield process.start()
    shutil.rmtree(home, ignore_errors=True)


def ended(daemon: Process, argv: list[str], **spec: Any) -> Any:
    payload = {"argv": argv, "cwd": "/"}
    ack = daemon.call("job.enqueue", job_type="T", payload=payload, execution_mode="SUBPROCESS", **spec)
    waited = daemon.call("job.wait", job_id=ack["job_id"], timeout_ms=10_000)
    assert waited["finished"]
    return waited["job"]


def environment(daemon: Process, **spec: Any) -> dict[str, str]:
    job = ended(daemon, ["env", "-0"], **spec)
    text = daemon.call("job.logs", job_id=job["job_id"], limit=1_048_576)["chunk"]
    pairs = [variable.partition("=") for variable in text.split("\0") if variable]
    return {name: value for name, _, value in pairs if not name.startswith("SEMANTICA_")}


def test_of_the_daemon_s_environment_only_the_allow_list_goes_on(daemon: Process) -> None:
    found = environment(daemon)
    assert found | ALLOWED == found
    assert not (NEVER | LEAKED).keys() & found.keys()


def test_what_the_caller_sends_lies_over_it_and_any_name_goes(daemon: Process) -> None:
    found = environment(daemon, env_vars={"HOME": "/mine", "ANYTHING": "a=b\nc", "EMPTY": "", "_1": "ä"})
    assert found | {"HOME": "/mine", "ANYTHING": "a=b\nc", "EMPTY": "", "_1": "ä", "USER": "u"} == found


def test_service_variables_are_never_passed_not_even_when_asked_for(daemon: Process) -> None:
    found = environment(daemon, env_vars={**NEVER, "SEMANTICA_HOME": "/elsewhere", "TRACEPARENT": "x"})
    assert not NEVER.keys() & found.keys()
    assert "TRACEPARENT" not in found


def test_what_is_not_passed_on_is_said_in_the_ack(daemon: Process) -> None:
    spec: dict[str, Any] = {"job_type": "T", "payload": {"argv": ["true"]}}
    assert daemon.call("job.enqueue", **spec, env_vars={"A": "x"})["warnings"] == []
    ack = daemon.call("job.enqueue", **spec, env_vars={"A": "x", "NOTIFY_SOCKET": "y", "SEMANTICA_HOME": "z"})
    assert [name for name in ("NOTIFY_SOCKET", "SEMANTICA_HOME") if name in "".join(ack["warnings"])] == [
        "NOTIFY_SOCKET", "SEMANTICA_HOME",
    ]  # fmt: skip
    (warning,) = daemon.call("job.enqueue", job_type="semantica.noop", env_vars={"A_KEY": SECRET})["warnings"]
    assert "environment variables" in warning


def test_its_path_is_the_job_s_own(daemon: Process, tmp_path: Path) -> None:
    command = tmp_path / "only-here"
    command.write_text("#!/bin/sh\necho found\n")
    command.chmod(0o755)
    assert ended(daemon, ["only-here"])["error"]["code"] == "E_SPAWN"
    assert ended(daemon, ["only-here"], env_vars={"PATH": f"{tmp_path}:/bin"})["state"] == "DONE"


SECRETS = {"API_TOKEN": SECRET, "my_password": SECRET, "AWS_SECRET": SECRET, "SSH_KEY": SECRET, "PLAIN": "shown"}


def test_a_secret_reaches_the_process_on_every_attempt(daemon: Process) -> None:
    script = 'test "$API_TOKEN$my_password" = ab && test $SEMANTICA_ATTEMPT = 2'
    secrets = {"API_TOKEN": "a", "my_password": "b"}
    job = ended(daemon, ["sh", "-c", script], env_vars=secrets, max_attempts=2, backoff_base_ms=1)
    assert (job["state"], job["attempts"]) == ("DONE", 2)


def test_a_secret_is_shown_to_nobody_and_is_in_no_file(daemon: Process) -> None:
    job = ended(daemon, ["true"], env_vars=SECRETS)
    shown = {**dict.fromkeys(SECRETS, "***"), "PLAIN": "shown"}
    assert job["env_vars"] == shown
    (listed,) = [one for one in daemon.call("job.list")["items"] if one["job_id"] == job["job_id"]]
    assert listed["env_vars"] == shown
    assert SECRET not in json.dumps([job, listed, daemon.call("event.list", limit=1000), daemon.call("admin.config")])
    for path in files_in(daemon.home):
        assert SECRET.encode() not in path.read_bytes(), path


def test_a_secret_whose_value_is_what_others_are_shown_is_no_lost_one(daemon: Process) -> None:
    assert ended(daemon, ["sh", "-c", 'test "$PASSWORD" = "***"'], env_vars={"PASSWORD": "***"})["state"] == "DONE"


def test_the_value_of_a_secret_makes_no_other_spec(daemon: Process) -> None:
    """A token that was renewed between two tries is still the same work; another variable is not."""
    spec: dict[str, Any] = {"job_type": "T", "payload": {"argv": ["true"]}, "idempotency_key": "once"}
    first = daemon.call("job.enqueue", **spec, env_vars={"TOKEN": "a", "PLAIN": "1"})
    again = daemon.call("job.enqueue", **spec, env_vars={"TOKEN": "b", "PLAIN": "1"})
    assert (again["existing"], again["job_id"]) == (True, first["job_id"])
    for other in ({"TOKEN": "a", "PLAIN": "2"}, {"TOKEN": "a"}, {"PLAIN": "1"}):
        with pytest.raises(RpcError) as refused:
            daemon.call("job.enqueue", **spec, env_vars=other)
        assert refused.value.data["code"] == "E_IDEMPOTENCY_CONFLICT"


@pytest.mark.parametrize("killed", [True, False])
def test_a_waiting_job_whose_secret_a_restart_has_lost_never_runs_without(home: Path, killed: bool) -> None:
    with Process(home).start() as daemon:
        spec: dict[str, Any] = {"job_type": "T", "payload": {"argv": ["touch", str(home / "ran")], "cwd": "/"}}
        daemon.call("queue.pause")
        lost = daemon.call("job.enqueue", **spec, env_vars={"API_KEY": SECRET, "PLAIN": "1"}, max_attempts=5)
        sound = daemon.call("job.enqueue", job_type="T", payload={"argv": ["true"]}, env_vars={"PLAIN": "1"})
        if killed:
            daemon.kill()
        else:
            assert daemon.stop() == 0
        daemon.start()
        assert rows(home, "SELECT state FROM jobs") == [("QUEUED",), ("QUEUED",)]
        daemon.call("queue.resume")
        job = daemon.call("job.wait", job_id=lost["job_id"])["job"]
        assert (job["state"], job["error"]["code"], job["run_count"]) == ("FAILED", "E_SECRET_LOST", 1)
        assert "API_KEY" in job["error"]["message"]
        assert "PLAIN" not in job["error"]["message"]
        assert daemon.call("job.wait", job_id=sound["job_id"])["job"]["state"] == "DONE"
        assert not (home / "ran").exists()
