"""What a command starts with, seen by the command itself, and how its end is told."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from semantica_daemon.processes import table
from tests.cases import each_case
from tests.engine.commands import first_line_as_json, output, python, run, run_for_json, sh, start
from tests.engine.stream import events, types_of
from tests.harness import Harness, daemon
from tests.rpc.wire import rows

ME = """
import json, os, resource, sys
def is_open(number):
    try:
        os.fstat(number)
        return True
    except OSError:
        return False
print(json.dumps({
    "argv": sys.argv[1:], "cwd": os.getcwd(), "umask": os.umask(0), "env": dict(os.environ),
    "leads": os.getpid() == os.getpgid(0) == os.getsid(0), "open": [n for n in range(1000) if is_open(n)],
    "soft": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "parent": os.getppid(), "pid": os.getpid(),
    "stdin": sys.stdin.read(), "tty": os.path.exists("/dev/tty") and os.isatty(0),
}))
"""


HOME = os.path.realpath(os.path.expanduser("~"))


async def test_argv_goes_to_the_command_as_it_is_and_to_no_shell(house: Harness) -> None:
    hostile = ["a b", "$HOME", "`id`", "*", "", "ä\n", "--", "; exit 1"]
    assert (await run_for_json(house, [*python(ME), *hostile]))["argv"] == hostile


async def test_cwd_stdin_and_umask_are_those_of_the_payload(house: Harness, tmp_path: Path) -> None:
    me = await run_for_json(house, python(ME), cwd=str(tmp_path), stdin="two\nlines ä", umask=0o027)
    assert (me["cwd"], me["stdin"], me["umask"]) == (str(tmp_path), "two\nlines ä", 0o027)


async def test_without_them_it_is_at_home_reads_nothing_and_others_may_read_its_files(house: Harness) -> None:
    ack = await house.enqueue("T", payload={"argv": python(ME)})
    await house.ended(ack["job_id"])
    me = json.loads(await output(house, ack["job_id"]))
    assert (me["cwd"], me["stdin"], me["umask"]) == (HOME, "", 0o022)


async def test_it_leads_a_session_of_its_own_and_has_nothing_open_but_its_streams(house: Harness) -> None:
    me = await run_for_json(house, python(ME))
    assert (me["leads"], me["open"], me["tty"]) == (True, [0, 1, 2], False)
    assert me["soft"] == 1024, "the limit that jobs are given, not the daemon's own"
    assert me["parent"] != os.getpid(), "the daemon does not start it itself"


async def test_no_signal_is_ignored_or_blocked(house: Harness) -> None:
    job = await run(house, ["cat", "/proc/self/status"])
    status = dict(line.split(":\t", 1) for line in (await output(house, job["job_id"])).splitlines() if ":\t" in line)
    internal = 3 << 31  # 32 and 33 belong to the C library, which leaves them ignored when it spawns
    found = {name: int(status[name], 16) & ~internal for name in ("SigIgn", "SigBlk", "SigCgt")}
    assert found == {"SigIgn": 0, "SigBlk": 0, "SigCgt": 0}


async def test_a_reader_that_goes_away_ends_the_writer(house: Harness) -> None:
    """As in a shell: SIGPIPE has its usual meaning."""
    job = await run(house, sh("yes | head -n 1"))
    assert (job["state"], await output(house, job["job_id"])) == ("DONE", "y\n")


@each_case("code", [1, 2, 77, 255])
async def test_the_exit_code_is_the_job_s(house: Harness, code: int) -> None:
    job = await run(house, sh(f"exit {code}"))
    assert (job["state"], job["exit_code"], job["error"]["code"], job["error"]["class"]) == (
        "FAILED", code, "E_EXIT", "transient",
    )  # fmt: skip
    assert str(code) in job["error"]["message"]
    assert [(one["exit_code"], one["status"], one["error"]["code"]) for one in job["runs"]] == [
        (code, "FAILED", "E_EXIT")
    ]


@each_case("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGUSR1])
async def test_a_signal_is_named_and_there_is_no_exit_code(house: Harness, number: signal.Signals) -> None:
    job = await run(house, sh(f"kill -{int(number)} $$"))
    assert (job["state"], job["exit_code"], job["error"]["code"]) == ("FAILED", None, "E_SIGNAL")
    assert job["error"]["details"] == {"signal": number, "name": number.name}
    assert number.name in job["error"]["message"]


async def test_a_command_that_fails_is_tried_again_and_each_run_has_its_own_log(house: Harness) -> None:
    script = sh("echo attempt $SEMANTICA_ATTEMPT; test $SEMANTICA_ATTEMPT = 3")
    job = await run(house, script, max_attempts=3, backoff_base_ms=1)
    assert (job["state"], job["attempts"], job["run_count"]) == ("DONE", 3, 3)
    folder = house.paths.data / "workspaces" / job["job_id"]
    assert [one["log_path"] for one in job["runs"]] == [str(folder / f"job{n}.log") for n in ("", ".2", ".3")]
    assert [await output(house, job["job_id"], run=n) for n in (1, 2, 3)] == [f"attempt {n}\n" for n in (1, 2, 3)]


async def test_its_identity_is_committed_and_told_once_it_exists(house: Harness) -> None:
    job_id = await start(house, python("import os, time; print(os.getpid(), flush=True); time.sleep(600)"))
    pid = await first_line_as_json(house, job_id)
    process = table.find_process(pid)
    assert process is not None
    job = await house.job(job_id)
    (row,) = rows_of(house, job_id)
    assert (job["pid"], row["pid"], row["boot_id"]) == (pid, pid, table.boot_id())
    assert row["pid_started_at"] == process.started_at
    (event,) = await events(house, "job.started", job_id=job_id)
    assert event["payload"] == {"run_id": job["run_id"], "attempt": 1, "pid": pid}
    await house.call("job.cancel", job_id=job_id, wait_ms=5000)


def rows_of(harness: Harness, job_id: str) -> list[dict[str, Any]]:
    names = ("pid", "pid_started_at", "boot_id", "log_path")
    columns = ", ".join(f"job_runs.{name}" for name in names)
    sql = f"SELECT {columns} FROM job_runs JOIN jobs ON jobs.number = job_number WHERE id = ?"
    found = rows(harness.paths.data, sql, job_id)
    return [dict(zip(names, row, strict=True)) for row in found]


async def test_what_could_not_be_started_was_never_told_to_have_started(house: Harness) -> None:
    job = await run(house, ["no-such-command"], max_attempts=5)
    assert (job["state"], job["error"]["code"], job["error"]["details"]) == (
        "FAILED",
        "E_SPAWN",
        {"errno": 2, "of": "command"},
    )
    assert (job["run_count"], job["pid"], job["error"]["class"]) == (1, None, "permanent")
    assert await types_of(house, job["job_id"]) == ["job.queued", "job.failed"]


async def test_a_trace_goes_on_in_the_command(house: Harness) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    env = (await run_for_json(house, python(ME), traceparent=f"00-{trace}-b7ad6b7169203331-01"))["env"]
    version, found, span, flags = env["TRACEPARENT"].split("-")
    assert (version, found, len(span), flags) == ("00", trace, 16, "01")
    assert span != "b7ad6b7169203331", "a span of its own"
    assert "TRACEPARENT" not in (await run_for_json(house, python(ME)))["env"]


async def test_the_flags_of_a_trace_are_passed_on_as_given(house: Harness) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    env = (await run_for_json(house, python(ME), traceparent=f"00-{trace}-b7ad6b7169203331-00"))["env"]
    assert env["TRACEPARENT"].endswith("-00"), "not sampled"
    env = (await run_for_json(house, python(ME), trace_id=trace))["env"]
    assert env["TRACEPARENT"].endswith("-01")


@each_case(
    "fields",
    [
        {"traceparent": f"ff-{'a' * 32}-b7ad6b7169203331-01"},
        {"traceparent": f"00-{'0' * 32}-b7ad6b7169203331-01"},
        {"traceparent": f"00-{'a' * 32}-{'0' * 16}-01"},
        {"trace_id": "0" * 32},
    ],
)
async def test_a_trace_context_that_the_standard_calls_invalid_is_ignored(
    house: Harness, fields: dict[str, str]
) -> None:
    assert "TRACEPARENT" not in (await run_for_json(house, python(ME), **fields))["env"]


async def test_it_knows_who_it_is_and_where_its_files_go(house: Harness) -> None:
    job_id = await start(house, python(ME), env_vars={"SEMANTICA_JOB_ID": "mine", "SEMANTICA_RUN_TOKEN": "mine"})
    job = await house.ended(job_id)
    env = json.loads(await output(house, job_id))["env"]
    workspace = house.paths.data / "workspaces" / job_id
    expected = {
        "SEMANTICA_SOCKET": str(house.paths.socket), "SEMANTICA_JOB_ID": job_id, "SEMANTICA_RUN_ID": job["run_id"],
        "SEMANTICA_ATTEMPT": "1", "SEMANTICA_WORKSPACE": str(workspace), "SEMANTICA_OUTPUT": str(workspace / "output"),
        "SEMANTICA_RESULT": str(workspace / "result.json"), "SEMANTICA_HOME": str(house.paths.data),
    }  # fmt: skip
    assert env | expected == env
    assert len(env["SEMANTICA_RUN_TOKEN"]) >= 32
    assert {name for name in env if name.startswith("SEMANTICA_")} == {*expected, "SEMANTICA_RUN_TOKEN"}


async def test_a_command_that_leaves_nothing_has_no_folder_once_the_daemon_is_closed(home: Path) -> None:
    """Nor after a few idle seconds before that: `supervisor/workspace` says why not at once."""
    async with daemon(home) as harness:
        silent = await run(harness, ["true"])
        noisy = await run(harness, sh("echo something"))
    workspaces = home / "workspaces"
    assert not (workspaces / silent["job_id"]).exists()
    assert (workspaces / noisy["job_id"] / "job.log").stat().st_mode & 0o777 == 0o600


async def test_what_it_puts_into_its_output_stays(house: Harness) -> None:
    job = await run(house, sh("echo kept > $SEMANTICA_OUTPUT/found; test -d $SEMANTICA_WORKSPACE"))
    assert (house.paths.data / "workspaces" / job["job_id"] / "output" / "found").read_text() == "kept\n"


async def test_many_at_once_each_have_their_own_output(house: Harness) -> None:
    ids = [await start(house, sh(f"echo {number}; exit {number % 3}")) for number in range(40)]
    for number, job_id in enumerate(ids):
        job = await house.ended(job_id)
        assert (job["exit_code"], await output(house, job_id)) == (number % 3, f"{number}\n")
