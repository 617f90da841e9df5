"""What the supervisor starts, and the plain reason when it cannot; then nothing is left of the try."""

import os
import resource
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.supervisor.file_limit import FileLimit
from semantica_daemon.supervisor.log import STDERR, STDOUT
from semantica_daemon.supervisor.messages import SpawnFailed, SpawnRequest
from semantica_daemon.supervisor.run import Run
from semantica_daemon.supervisor.spawn import SpawnError
from tests.descriptors import own_descriptors
from tests.supervisor.families import end

pytestmark = pytest.mark.usefixtures("no_garbage_collection")

ENV = {b"PATH": b"/usr/bin:/bin", b"SEMANTICA_RUN_ID": b"r"}


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpawnRequest:
    """`echo hello` in a folder that is there. A spawn moves its own process about; pytest's is put back."""
    monkeypatch.chdir(tmp_path)
    job = tmp_path / "job"
    job.mkdir()
    (tmp_path / "cwd").mkdir()
    return SpawnRequest(
        run_id="r", argv=["echo", "hello"], cwd=str(tmp_path / "cwd"), env=ENV, umask=0o022, stdin=None,
        workspace=str(job), output=str(job / "output"), result=str(job / "result.json"), log=str(job / "job.log"),
        log_bytes=100_000, keep_leftovers=False, is_followed=False, has_input=False, window=None,
    )  # fmt: skip


@pytest.fixture
def started() -> Iterator[list[Run]]:
    runs: list[Run] = []
    yield runs
    end(*(run.pid for run in runs if run.status is None))


def begin(echo: SpawnRequest, started: list[Run], **other: Any) -> Run:
    started.append(Run(echo._replace(**other), 0, FileLimit(1024)))
    return started[-1]


def to_the_end(run: Run) -> dict[str, int]:
    """Its pipes read until they close, its process reaped; how it ended."""
    run.close_writing_ends()
    for pipe in run.pipes:
        while select.select([pipe], [], []) and run.pump(pipe):
            pass
    run.close_pipes()
    run.status = os.waitpid(run.pid, 0)[1]
    run.log.close()
    report = run.exited(with_process=False)
    return {"code": report.code} if report.signal is None else {"signal": report.signal}  # type: ignore[dict-item]


def refused(echo: SpawnRequest, **other: Any) -> SpawnFailed:
    """Why it could not be started; no descriptor and no file is left of it, and we are as we were."""
    before = (own_descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE), umask())
    with pytest.raises(SpawnError) as caught:
        Run(echo._replace(**other), 0, FileLimit(1024))
    assert (own_descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE), umask()) == before
    assert os.listdir(echo.workspace) == []
    return caught.value.report


def umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def script(folder: Path, text: str, mode: int = 0o755) -> str:
    path = folder / "script"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_what_it_writes_and_how_it_ends_are_kept(echo: SpawnRequest, started: list[Run]) -> None:
    run = begin(echo, started, argv=["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert sorted(run.pipes.values()) == [STDOUT, STDERR]
    assert to_the_end(run) == {"code": 3}
    assert (run.log.dropped, run.log.error) == (0, "")
    assert sorted(Path(echo.log).read_text().split()) == ["err", "out"]


def test_a_signal_is_told_as_such(echo: SpawnRequest, started: list[Run]) -> None:
    assert to_the_end(begin(echo, started, argv=["sh", "-c", "kill -9 $$"])) == {"signal": 9}


def test_stdin_is_there_to_the_last_byte_and_is_no_pipe(echo: SpawnRequest, started: list[Run]) -> None:
    text = "ä" * 500_000
    run = begin(echo, started, argv=["sh", "-c", "test ! -p /dev/stdin && wc -c"], stdin=text)
    assert to_the_end(run) == {"code": 0}
    assert Path(echo.log).read_text().strip() == "1000000"


def test_without_stdin_there_is_nothing_to_read(echo: SpawnRequest, started: list[Run]) -> None:
    to_the_end(begin(echo, started, argv=["wc", "-c"]))
    assert Path(echo.log).read_text().strip() == "0"


def test_an_endless_line_takes_no_room_but_its_chunk(echo: SpawnRequest, started: list[Run]) -> None:
    run = begin(echo, started, argv=["head", "-c", "20000000", "/dev/zero"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    to_the_end(run)
    assert 20_000_000 - 100_000 <= run.log.dropped < 20_000_000 - 90_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 5000


def test_what_is_left_in_the_pipes_is_drained_though_somebody_holds_them(
    echo: SpawnRequest, started: list[Run]
) -> None:
    run = begin(echo, started, argv=["sh", "-c", "echo last words; sleep 600 & echo $!"])
    assert os.waitstatus_to_exitcode(os.waitpid(run.pid, 0)[1]) == 0
    run.drain()
    *words, pid = Path(echo.log).read_text().split()
    end(int(pid))
    assert words == ["last", "words"]
    run.status = 0


def test_what_is_not_on_the_path_says_so(echo: SpawnRequest) -> None:
    error = refused(echo, argv=["no-such-command"])
    assert (error.errno, error.retryable) == (2, False)
    assert "no-such-command was not found on the job's PATH" in error.message


def test_a_path_that_does_not_exist(echo: SpawnRequest) -> None:
    error = refused(echo, argv=["./nothing/here"])
    assert (error.errno, error.message) == (2, "./nothing/here does not exist")


def test_a_command_is_looked_for_in_its_own_cwd(echo: SpawnRequest, started: list[Run]) -> None:
    script(Path(echo.cwd), "#!/bin/sh\necho here\n")
    assert to_the_end(begin(echo, started, argv=["./script"]))["code"] == 0


def test_a_file_that_is_not_executable(echo: SpawnRequest, tmp_path: Path) -> None:
    error = refused(echo, argv=[script(tmp_path, "#!/bin/sh\n", 0o644)])
    assert error.errno == 13
    assert "is not executable: chmod +x" in error.message


def test_a_directory_is_no_command(echo: SpawnRequest, tmp_path: Path) -> None:
    error = refused(echo, argv=[str(tmp_path)])
    assert error.message == f"{tmp_path} is a directory, not a command"


def test_a_script_whose_interpreter_is_missing(echo: SpawnRequest, tmp_path: Path) -> None:
    error = refused(echo, argv=[script(tmp_path, "#!/no/such/interpreter\n")])
    assert "#! line" in error.message


def test_a_text_without_an_interpreter(echo: SpawnRequest, tmp_path: Path) -> None:
    error = refused(echo, argv=[script(tmp_path, "echo hello\n")])
    assert (error.errno, "is no program" in error.message) == (8, True)


@pytest.mark.parametrize("kind", ["gone", "file"])
def test_a_cwd_that_cannot_be_used(echo: SpawnRequest, tmp_path: Path, kind: str) -> None:
    cwd = tmp_path / kind
    if kind == "file":
        cwd.write_text("")
    error = refused(echo, cwd=str(cwd))
    assert error.message.startswith(f"its cwd {cwd} cannot be used: ")
    assert error.part == "cwd"
    assert (error.retryable, ("No such" in error.message) == (kind == "gone")) == (False, True)


def test_more_than_the_system_takes(echo: SpawnRequest) -> None:
    error = refused(echo, argv=["echo", *["x" * 100_000] * 100])
    assert (error.errno, error.retryable, "longer than the system takes" in error.message) == (7, False, True)


@pytest.mark.parametrize("other", [{"argv": ["echo", "a\0b"]}, {"env": {b"A": b"a\0b"}}])
def test_a_zero_byte_is_the_command_s_own_fault(echo: SpawnRequest, other: dict[str, Any]) -> None:
    error = refused(echo, **other)
    assert (error.retryable, bool(error.message)) == (False, True)


def test_no_descriptor_to_be_had_is_worth_asking_again(echo: SpawnRequest, started: list[Run]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(used + 4 - len(os.listdir("/proc/self/fd")))]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 2, hard))
        with pytest.raises(SpawnError) as caught:
            Run(echo, 0, FileLimit(1024))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for handle in held:
            os.close(handle)
    assert (caught.value.report.errno, caught.value.report.retryable) == (24, True)
    assert to_the_end(begin(echo, started))["code"] == 0, "and then it can be had"


def test_it_is_started_with_the_limit_that_was_asked_for(echo: SpawnRequest, started: list[Run]) -> None:
    """With few descriptors, with many, and with few again; with many, the supervisor's own limit is higher."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] <= 2000:
        pytest.skip("NOT TESTED: the limit of this session is low already")
    limit, own = FileLimit(2000), list[int]()
    try:
        limit.lower()
        for open_files in (0, 400, 0):
            held = [os.open(os.devnull, os.O_RDONLY) for _ in range(open_files)]
            started.append(Run(echo._replace(argv=["sh", "-c", "ulimit -n"]), 0, limit))
            own.append(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            for handle in held:
                os.close(handle)
            to_the_end(started[-1])
            assert Path(echo.log).read_text().split() == ["2000"] * len(own)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert own == [2000, before[1], before[1]]


def test_it_leads_a_session_and_has_three_descriptors(echo: SpawnRequest, started: list[Run]) -> None:
    leak = os.open(os.devnull, os.O_RDONLY)
    program = f"import os; print(os.getpid() == os.getsid(0) == os.getpgid(0)); os.fstat(2); os.fstat({leak})"
    told = to_the_end(begin(echo, started, argv=[sys.executable, "-I", "-S", "-c", program]))
    os.close(leak)
    text = Path(echo.log).read_text()
    assert (told["code"], text.startswith("True\n"), "Bad file descriptor" in text) == (1, True, True)
