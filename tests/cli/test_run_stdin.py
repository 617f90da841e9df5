"""The stdin of `semantica run`: streamed to the job while the command is attached, or stored with `--stdin`."""

import signal
import subprocess
from pathlib import Path

from semantica_daemon.client.exit_codes import DATA
from tests.cases import each_case
from tests.cli.command_line import COMMAND, Line, StartedCommand


def test_piped_stdin_reaches_the_job_whatever_is_in_it(line: Line, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40_000  # more than any pipe holds, and more than can be stored
    result = line("run", "--", "sh", "-c", "cat > copy; wc -c < copy", stdin=data)
    assert (result.code, result.out.strip(), result.err) == (0, "10240000", "")
    assert (tmp_path / "copy").read_bytes() == data
    with open(tmp_path / "copy", "rb") as file:
        words = [*COMMAND, "run", "--", "wc", "-c"]
        assert subprocess.run(words, stdin=file, env=line.env, capture_output=True).stdout.strip() == b"10240000"


def test_without_a_pipe_stdin_is_empty(line: Line) -> None:
    assert line.start("run", "--", "wc", "-c").result().out.strip() == "0"
    assert line.on_terminal("run", "--", "wc", "-c").out.strip() == "0"


def piped(line: Line, *words: str) -> StartedCommand:
    pipe = subprocess.PIPE
    command = [*COMMAND, *words]
    return StartedCommand(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=line.env, cwd=line.cwd))


def test_the_job_reads_stdin_as_it_is_written(line: Line) -> None:
    begun = piped(line, "run", "--", "cat")
    assert begun.process.stdin is not None
    for word in ("one\n", "two\n"):
        begun.process.stdin.write(word.encode())
        begun.process.stdin.flush()
        begun.until(word)
    begun.process.stdin.close()
    begun.process.stdin = None
    assert begun.result() == (0, "one\ntwo\n", "")


def test_a_job_that_does_not_read_its_stdin_ends_as_it_would(line: Line) -> None:
    assert line("run", "--", "true", stdin=bytes(1_000_000)) == (0, "", "")


def test_stdin_ends_when_run_detaches(line: Line, tmp_path: Path) -> None:
    begun = piped(line, "run", "--", "sh", "-c", "echo begun; cat > copy; echo $? >> copy")
    assert begun.process.stdin is not None
    begun.process.stdin.write(b"sent\n")
    begun.process.stdin.flush()
    begun.until("begun\n")
    begun.signal(signal.SIGTERM)
    begun.until("its stdin ends now", "err")
    assert begun.process.wait(20) == 143
    begun.result()
    assert line("wait", "@last").code == 0
    assert (tmp_path / "copy").read_text() in ("sent\n0\n", "0\n")


def test_a_job_that_waits_longer_than_its_caller_gets_an_empty_stdin(line: Line) -> None:
    assert line("queue", "pause", "later", "--create").code == 0
    begun = piped(line, "run", "-Q", "later", "--", "wc", "-c")
    begun.until("waiting", "err")
    begun.signal(signal.SIGTERM)
    begun.result()
    line("queue", "resume", "later")
    assert line("wait", "@last").code == 0
    assert line("logs", "@last").out.strip() == "0"


def test_only_stored_stdin_reaches_every_attempt(line: Line) -> None:
    words = ("run", "--attempts", "2", "--backoff", "1ms", "--", "sh", "-c", "cat; exit 3")
    streamed = line(*words, stdin="text\n")
    assert (streamed.out, "run 2" in streamed.err) == ("text\n", True)
    assert "without stdin, which the first one has read; --stdin stores it for all" in streamed.err
    assert line(words[0], "--stdin", *words[1:], stdin="text\n").out == "text\ntext\n"


def test_stdin_is_stored_with_its_option(line: Line) -> None:
    assert line("run", "--stdin", "--", "wc", "-c", stdin="grüße\n").out.strip() == "8"
    line("add", "--stdin", "--", "wc", "-c", stdin="grüße\n")
    assert line("wait", "@last").code == 0
    assert line("logs", "@last").out.strip() == "8"


@each_case(("data", "sentence"), [(b"\xff\xfe", "not UTF-8"), (b"x" * 10_000_001, "more than 10 MB")])
def test_stdin_that_cannot_be_carried_is_refused(line: Line, data: bytes, sentence: str) -> None:
    result = line("run", "--stdin", "--", "cat", stdin=data)
    assert (result.code, result.out) == (65, "")
    assert sentence in result.err


def test_stored_stdin_is_counted_as_json(line: Line) -> None:
    refused = line("add", "--stdin", "--", "true", stdin=b"\n" * 6_000_000)
    assert (refused.code, refused.out) == (DATA, "")
    assert "stdin has more than 10 MB as JSON" in refused.err
