"""The environment that a caller hands over with a command: the process gets it byte for byte, it is stored once, and no
file has its secrets."""

import base64
import contextlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Process, RpcError
from tests.homes import files_in
from tests.rpc.wire import rows

SECRET = "a-secret-that-came-along-52c1"
SHELL = {"PATH": "/usr/bin:/bin", "NODE_ENV": "test", "CFLAGS": "-O2", "BASH_FUNC_x%%": "() { :; }"}


@pytest.fixture(scope="module")
def daemon() -> Iterator[Process]:
    home = Path(tempfile.mkdtemp(prefix="sem-"))
    with Process(home, LANG="C.UTF-8") as process:
        yield process.start()
    shutil.rmtree(home, ignore_errors=True)


def spec(argv: list[str], **fields: Any) -> dict[str, Any]:
    return {"job_type": "T", "payload": {"argv": argv, "cwd": "/"}, "execution_mode": "SUBPROCESS", **fields}


def ended(daemon: Process, argv: list[str], **fields: Any) -> Any:
    ack = daemon.call("job.enqueue", **spec(argv, **fields))
    return daemon.call("job.wait", job_id=ack["job_id"], timeout_ms=40_000)["job"]


def seen(daemon: Process, **fields: Any) -> dict[bytes, bytes]:
    """What the process has, without the variables of the run."""
    job = ended(daemon, ["cat", "/proc/self/environ"], **fields)
    chunk = daemon.call("job.logs", job_id=job["job_id"])
    data = base64.b64decode(chunk["chunk"]) if chunk["encoding"] == "base64" else chunk["chunk"].encode()
    pairs = [variable.partition(b"=") for variable in data.split(b"\0") if variable]
    return {name: value for name, _, value in pairs if not name.startswith(b"SEMANTICA_")}


def test_the_process_has_the_caller_s_environment_and_nothing_of_the_daemon_s(daemon: Process) -> None:
    assert seen(daemon, environment=SHELL) == {name.encode(): value.encode() for name, value in SHELL.items()}
    assert seen(daemon)[b"LANG"] == b"C.UTF-8"


def test_a_variable_set_by_name_wins(daemon: Process) -> None:
    found = seen(daemon, environment={**SHELL, "MY_TOKEN": "b"}, env_vars={"NODE_ENV": "prod", "MY_TOKEN": "a"})
    assert (found[b"NODE_ENV"], found[b"MY_TOKEN"], found[b"CFLAGS"]) == (b"prod", b"a", b"-O2")


def test_bytes_that_are_not_utf_8_arrive_as_they_are(daemon: Process) -> None:
    value = bytes(range(1, 256))
    packed = {"base64": base64.b64encode(value).decode()}
    found = seen(daemon, environment={**SHELL, "PLAIN": packed, "ODD_SECRET": packed, "UTF8": {"base64": "w6Q="}})
    assert (found[b"PLAIN"], found[b"ODD_SECRET"], found[b"UTF8"]) == (value, value, "ä".encode())


def test_the_variables_of_an_outer_run_and_of_a_service_are_replaced_or_left_out(daemon: Process) -> None:
    outer = {"SEMANTICA_RUN_ID": "outer", "SEMANTICA_HOME": "/outer", "NOTIFY_SOCKET": "/n", "LISTEN_FDS": "1"}
    assert seen(daemon, environment={**SHELL, **outer}).keys() == {name.encode() for name in SHELL}
    script = 'test "$SEMANTICA_RUN_ID" != outer && test "$SEMANTICA_HOME" != /outer && test -S "$SEMANTICA_SOCKET"'
    assert ended(daemon, ["sh", "-c", script], environment={**SHELL, **outer})["state"] == "DONE"


def test_ten_thousand_jobs_of_one_shell_are_one_row(daemon: Process) -> None:
    daemon.call("queue.pause", queue="many")
    before = rows(daemon.home, "SELECT count(*) FROM environments")[0][0]
    shell = {**SHELL, "SHELL_OF": "many"}
    for number in range(10):
        tokens = {"CI_TOKEN": f"renewed {number}"}  # a secret is not part of what is stored
        one = spec(["true"], queue="many", environment=shell | tokens)
        daemon.call("job.enqueue_many", jobs=[one] * 1000)
    assert rows(daemon.home, "SELECT count(*) FROM environments")[0][0] == before + 1
    count = "SELECT count(DISTINCT environment_id), count(environment_id) FROM jobs WHERE queue = 'many'"
    assert rows(daemon.home, count) == [(1, 10_000)]
    daemon.call("job.cancel", queue="many")


def test_a_secret_reaches_the_process_and_no_file(daemon: Process) -> None:
    packed = {"base64": base64.b64encode(SECRET.encode()).decode()}
    script = f"test ${{#GITHUB_TOKEN}}${{#PGPASSWORD}}$SEMANTICA_ATTEMPT = {len(SECRET)}{len(SECRET)}2"
    secrets = {"GITHUB_TOKEN": SECRET, "PGPASSWORD": packed}
    again = {"max_attempts": 2, "backoff_base_ms": 1}
    job = ended(daemon, ["sh", "-c", script], environment={**SHELL, **secrets}, **again)
    assert (job["state"], job["attempts"]) == ("DONE", 2)
    assert (job["environment"]["secrets"], job["environment"]["left_out"]) == (["GITHUB_TOKEN", "PGPASSWORD"], [])
    assert job["environment"]["names"] == ["BASH_FUNC_x%%", "CFLAGS", "NODE_ENV"]
    shown = [job, daemon.call("job.list"), daemon.call("event.list", limit=1000), daemon.call("admin.config")]
    assert SECRET not in json.dumps(shown)
    files = files_in(daemon.home)
    assert any(path.name == "meta.db-wal" for path in files)
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path


def test_a_job_without_one_stores_and_shows_none(daemon: Process) -> None:
    job = ended(daemon, ["true"], env_vars={"A": "1"})
    assert (job["environment"], job["env_vars"]) == (None, {"A": "1"})
    stored = rows(daemon.home, "SELECT environment_id, env_vars FROM jobs WHERE id = ?", job["job_id"])
    assert stored == [(None, '{"A":"1"}')]


def test_the_same_key_from_another_shell_is_the_same_job(daemon: Process) -> None:
    one = spec(["true"], idempotency_key="from two shells")
    first = daemon.call("job.enqueue", **one, environment=SHELL)
    again = daemon.call("job.enqueue", **one, environment={**SHELL, "SHLVL": "2"})
    assert (again["existing"], again["job_id"]) == (True, first["job_id"])


@pytest.mark.parametrize(
    ("environment", "problem"),
    [({"": "x"}, "empty name"), ({"A=B": "x"}, "A=B"), ({"A": "x\0"}, "NUL"), ({"A": "x" * 200_000}, "variable A")],
)
def test_what_no_environment_can_hold_is_refused(daemon: Process, environment: dict[str, str], problem: str) -> None:
    with pytest.raises(RpcError) as refused:
        daemon.call("job.enqueue", **spec(["true"], environment=environment))
    assert (refused.value.code, refused.value.data["path"]) == (-32602, "$.environment")
    assert problem in refused.value.message


def test_a_template_takes_no_environment_and_a_handler_does_not_use_it(daemon: Process) -> None:
    with pytest.raises(RpcError) as refused:
        daemon.call("template.put", name="t", spec=spec(["true"], environment=SHELL))
    assert refused.value.data["path"] == "$.spec.environment"
    (warning,) = daemon.call("job.enqueue", job_type="semantica.noop", environment=SHELL)["warnings"]
    assert "environment" in warning


def test_the_config_names_further_words_of_secrets(home: Path) -> None:
    (home / "config.toml").write_text('[daemon]\nsecret_words = ["dsn"]\n')
    with Process(home).start() as daemon:
        for fields in ({"environment": {**SHELL, "MY_DSN": SECRET}}, {"env_vars": {"MY_DSN": SECRET}}):
            assert ended(daemon, ["sh", "-c", f"test ${{#MY_DSN}} = {len(SECRET)}"], **fields)["state"] == "DONE"
        daemon.kill()
        assert SECRET.encode() not in b"".join(path.read_bytes() for path in files_in(home))


def test_a_retry_has_the_environment_of_the_first_without_its_secrets(daemon: Process) -> None:
    first = ended(daemon, ["sh", "-c", 'echo "$NODE_ENV $GITHUB_TOKEN"'], environment={**SHELL, "GITHUB_TOKEN": SECRET})
    ack = daemon.call("job.retry", job_id=first["job_id"])
    assert "GITHUB_TOKEN" in "".join(ack["warnings"])
    job = daemon.call("job.wait", job_id=ack["job_id"])["job"]
    assert daemon.call("job.logs", job_id=job["job_id"])["chunk"] == "test \n"
    assert job["environment"] == {**first["environment"], "left_out": ["GITHUB_TOKEN"]}


@pytest.mark.parametrize("killed", [True, False])
def test_a_restart_leaves_out_the_secrets_that_came_along_and_says_so(home: Path, killed: bool) -> None:
    with Process(home).start() as daemon:
        environment = {**SHELL, "GITHUB_TOKEN": SECRET}
        script = 'test "$NODE_ENV" = test && test -z "${GITHUB_TOKEN+set}"'
        over = ended(daemon, ["true"], environment=environment)
        daemon.call("queue.pause")
        queued = daemon.call("job.enqueue", **spec(["sh", "-c", script], environment=environment))
        for_event = {"type": "CONDITION", "wait_for_event": "e"}
        later = spec(["sh", "-c", script], environment=environment, schedule=for_event)
        scheduled = daemon.call("job.enqueue", **later)
        by_name = spec(["true"], environment=environment, env_vars={"GITHUB_TOKEN": SECRET})
        named = daemon.call("job.enqueue", **by_name)
        assert rows(home, "SELECT count(*) FROM environments") == [(1,)]
        if killed:
            daemon.kill()
        else:
            assert daemon.stop() == 0
        daemon.start()
        shown = [daemon.call("job.get", job_id=ack["job_id"])["environment"] for ack in (over, queued, scheduled)]
        assert [one["secrets"] for one in shown] == [["GITHUB_TOKEN"]] * 3
        assert [one["left_out"] for one in shown] == [[], ["GITHUB_TOKEN"], ["GITHUB_TOKEN"]]
        again = daemon.call("job.enqueue", **spec(["true"], environment=environment))
        assert daemon.call("job.get", job_id=again["job_id"])["environment"]["left_out"] == []
        assert daemon.stop() == 0
        daemon.start()
        assert daemon.call("job.get", job_id=again["job_id"])["environment"]["left_out"] == ["GITHUB_TOKEN"]
        daemon.call("queue.resume")
        daemon.call("event.emit", key="e")
        jobs = [daemon.call("job.wait", job_id=ack["job_id"])["job"] for ack in (queued, scheduled, named)]
        assert [job["state"] for job in jobs] == ["DONE", "DONE", "FAILED"]
        assert jobs[2]["error"]["code"] == "E_SECRET_LOST"
        assert jobs[0]["environment"]["left_out"] == ["GITHUB_TOKEN"]


def test_an_environment_that_no_job_refers_to_is_deleted_at_start(home: Path) -> None:
    with Process(home).start() as daemon:
        kept, gone = (ended(daemon, ["true"], environment={**SHELL, "NUMBER": text})["job_id"] for text in "12")
        assert daemon.stop() == 0
        with contextlib.closing(sqlite3.connect(home / "meta.db")) as connection, connection:
            connection.execute("DELETE FROM jobs WHERE id = ?", (gone,))
        daemon.start()
        environment = daemon.call("job.get", job_id=kept)["environment"]
        assert rows(home, "SELECT hash FROM environments") == [(environment["hash"],)]
