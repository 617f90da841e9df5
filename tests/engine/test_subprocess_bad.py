"""Commands that cannot be run and commands that misbehave: a clear error at once where it can be known, a FAILED job
with a plain reason where it cannot; and beside all of it another job goes on undisturbed."""

import asyncio
import os
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_case
from tests.engine.commands import (
    WAIT,
    family,
    first_line,
    first_line_as_json,
    gone,
    output,
    python,
    run,
    sh,
    start,
    until,
)
from tests.harness import Harness, RpcError
from tests.rpc.wire import stored
from tests.supervisor.families import marked

TICK = "import time\nwhile True:\n  print(time.monotonic(), flush=True); time.sleep(0.02)"
MOST_LATE_S = 1.0
"""Between two words of the bystander; alone it is 20 ms."""


@pytest.fixture(autouse=True)
async def bystander(house: Harness) -> AsyncIterator[None]:
    """A job that writes its time all along: it is there at the end, and was never kept waiting."""
    job_id = await start(house, python(TICK))
    await first_line(house, job_id)
    yield
    assert await house.state(job_id) == "RUNNING"
    times = [float(line) for line in (await output(house, job_id)).split("\n")[:-1]]
    assert max((after - before for before, after in pairwise(times)), default=0) < MOST_LATE_S
    await house.call("job.cancel", job_id=job_id, wait_ms=5000)


async def refused(harness: Harness, **spec: Any) -> RpcError:
    before = stored(harness.paths.data)
    with pytest.raises(RpcError) as caught:
        await harness.enqueue("T", **{"execution_mode": "SUBPROCESS", **spec})
    assert stored(harness.paths.data) == before
    assert caught.value.code == -32602
    assert caught.value.data["hint"]
    assert f"`{caught.value.data['path']}`" in caught.value.message
    return caught.value


def of(*argv: Any, **more: Any) -> dict[str, Any]:
    return {"payload": {"argv": list(argv), **more}}


AT_ONCE: dict[str, tuple[dict[str, Any], str]] = {
    "no argv": ({"payload": {}}, "$.payload"),
    "an empty argv": (of(), "$.payload.argv"),
    "an empty command": (of(""), "$.payload.argv[0]"),
    "argv as one string": ({"payload": {"argv": "make test"}}, "$.payload.argv"),
    "a number in argv": (of("echo", 1), "$.payload.argv[1]"),
    "a zero byte in argv": (of("echo", "a\0b"), "$.payload.argv[1]"),
    "a zero byte in the command": (of("a\0b"), "$.payload.argv[0]"),
    "a relative cwd": (of("true", cwd="here"), "$.payload.cwd"),
    "an empty cwd": (of("true", cwd=""), "$.payload.cwd"),
    "a zero byte in cwd": (of("true", cwd="/a\0b"), "$.payload.cwd"),
    "a umask that is none": (of("true", umask=0o1000), "$.payload.umask"),
    "stdin that is no text": (of("true", stdin=["a"]), "$.payload.stdin"),
    "a key nobody knows": (of("true", shell=True), "$.payload"),
    "200 kB in one argument": (of("echo", "x" * 200_000), "$.payload.argv[1]"),
    "200 kB in one variable": ({**of("true"), "env_vars": {"BIG": "x" * 200_000}}, "$.env_vars.BIG"),
    "more than the system takes": (of("echo", *["x" * 100_000] * 90), "$.payload.argv"),
    "more than the system takes, in the environment": (
        {**of("true"), "env_vars": {f"V{n}": "x" * 100_000 for n in range(100)}}, "$.payload.argv"
    ),
    "more words than the system takes": (of("echo", *["x"] * 300_000), "$.payload.argv"),
}  # fmt: skip


@each_case("case", AT_ONCE)
async def test_what_the_params_show_to_be_wrong_is_refused_at_once(house: Harness, case: str) -> None:
    spec, path = AT_ONCE[case]
    assert (await refused(house, **spec)).data["path"] == path


@each_case("env", [{"A-B": "x"}, {"": "x"}, {"1": "x"}, {"A=": "x"}, {"A": "a\0b"}, {"A": 1}])
async def test_a_variable_that_is_none_is_refused_at_once(house: Harness, env: dict[str, Any]) -> None:
    with pytest.raises(RpcError) as caught:
        await house.enqueue("T", payload={"argv": ["true"]}, env_vars=env)
    assert (caught.value.code, caught.value.data["path"].startswith("$.env_vars")) == (-32602, True)


async def test_the_longest_argument_and_variable_that_fit_are_run(house: Harness) -> None:
    argument, value = "x" * 131_071, "y" * (131_071 - len("BIG="))
    script = "test ${#1} = 131070 && test ${#BIG} = 131066"
    job = await run(house, [*sh(script), "sh", argument[:-1]], env_vars={"BIG": value[:-1]})
    assert job["state"] == "DONE", job["error"]


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder with things that are no commands."""
    for name, text, mode in (
        ("plain", "#!/bin/sh\n", 0o644), ("text", "echo\n", 0o755), ("lost", "#!/no/such\n", 0o755),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    return tmp_path


NOT_STARTED: dict[str, tuple[list[str], str, int, str]] = {
    "not on the PATH": (["no-such-command"], "", 2, "was not found on the job's PATH"),
    "a path to nothing": (["/no/such/command"], "", 2, "/no/such/command does not exist"),
    "not executable": (["./plain"], "", 13, "is not executable"),
    "a directory": (["/"], "", 13, "is a directory"),
    "no program": (["./text"], "", 8, "is no program"),
    "no interpreter": (["./lost"], "", 2, "#! line"),
    "a cwd that is gone": (["true"], "gone", 2, "its cwd"),
    "a cwd that is a file": (["true"], "plain", 20, "its cwd"),
}


@each_case("case", NOT_STARTED)
async def test_what_only_shows_when_it_is_tried_fails_the_job_with_a_plain_reason(
    house: Harness, odd: Path, case: str
) -> None:
    argv, cwd, number, why = NOT_STARTED[case]
    job = await run(house, argv, cwd=str(odd / cwd), max_attempts=3)
    error = job["error"]
    details = {"errno": number, "of": "cwd" if cwd else "command"}
    assert (job["state"], error["code"], error["class"], error["details"]) == (
        "FAILED", "E_SPAWN", "permanent", details,
    )  # fmt: skip
    assert why in error["message"]
    assert (job["run_count"], job["exit_code"]) == (1, None)
    await until(lambda: not (house.paths.data / "workspaces" / job["job_id"]).exists())


async def test_a_command_that_closes_its_streams_is_waited_for(house: Harness, tmp_path: Path) -> None:
    script = f"exec >&- 2>&- <&-; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; touch {tmp_path}/went; exit 3"
    job_id = await start(house, sh(script))
    await house.settle()
    assert await house.state(job_id) == "RUNNING"
    (tmp_path / "go").touch()
    job = await house.ended(job_id)
    assert (job["exit_code"], (tmp_path / "went").exists()) == (3, True)


async def test_a_command_that_stops_itself_can_be_woken_and_ends(house: Harness) -> None:
    program = "import os, signal; print(os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGSTOP); print('on')"
    job_id = await start(house, python(program))
    pid = await first_line_as_json(house, job_id)
    await until(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "T")
    assert await house.state(job_id) == "RUNNING"
    os.kill(pid, 18)
    assert (await house.ended(job_id))["state"] == "DONE"


@each_case(("argv", "said"), [(["head", "-c", "5"], "xxxxx"), (["wc", "-c"], "9900000\n")])
async def test_ten_megabytes_of_stdin_may_be_read_to_the_end_or_not(house: Harness, argv: list[str], said: str) -> None:
    job = await run(house, argv, stdin="x" * 9_900_000)
    assert (job["state"], await output(house, job["job_id"])) == ("DONE", said)


async def test_a_command_may_end_before_it_has_read_its_stdin_at_all(house: Harness) -> None:
    assert (await run(house, ["true"], stdin="x" * 1_000_000))["state"] == "DONE"


async def test_a_command_that_forks_a_daemon_ends_and_so_does_the_daemon(house: Harness) -> None:
    program = (
        "pid = child(os.setsid, twice, lambda: os.chdir('/'), lambda: [os.dup2(os.open('/dev/null', 2), n) for n in"
        " (0, 1, 2)])\nprint([pid])"
    )
    job_id = await start(house, family(program))
    job = await house.ended(job_id)
    assert (job["state"], gone(*await first_line_as_json(house, job_id))) == ("DONE", True)


async def test_a_command_that_ignores_everything_it_can_is_ended(house: Harness) -> None:
    program = (
        "for n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except (OSError, ValueError): pass\n"
        f"print([os.getpid()]); {WAIT}"
    )
    job_id = await start(house, family(program), grace_ms=100)
    pids = await first_line_as_json(house, job_id)
    await house.call("job.cancel", job_id=job_id, wait_ms=5000)
    assert (await house.state(job_id), gone(*pids)) == ("CANCELLED", True)


async def test_a_command_that_forks_without_end_is_ended(house: Harness) -> None:
    """Not a bomb, a chain: each process starts the next and leaves; by the time one is signalled it is another."""
    program = (
        "if not os.fork():\n"
        "  for n in range(20_000):\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
        f"print([]); {WAIT}"
    )
    job_id = await start(house, family(program), grace_ms=200)
    await first_line(house, job_id)
    run_id = (await house.job(job_id))["run_id"]
    await house.call("job.cancel", job_id=job_id, wait_ms=8000)
    assert (await house.state(job_id), marked(run_id)) == ("CANCELLED", [])


async def test_calls_are_answered_while_a_command_writes_as_fast_as_it_can(house: Harness) -> None:
    job_id = await start(house, ["yes"])
    await first_line(house, job_id)
    loop = asyncio.get_running_loop()
    worst = 0.0
    for _ in range(100):
        began = loop.time()
        await house.call("admin.health")
        worst = max(worst, loop.time() - began)
    assert worst < MOST_LATE_S
    await house.call("job.cancel", job_id=job_id, wait_ms=5000)
    assert await house.state(job_id) == "CANCELLED"
