"""`semantica map --resume`: goes on after Ctrl-C, and after kill -9 of the command or of the daemon."""

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from semantica_daemon.client.client import Client
from semantica_daemon.client.exit_codes import DATA
from semantica_daemon.paths import find
from tests.cli.command_line import Line
from tests.client.callers import no_daemon_left
from tests.harness import Process
from tests.homes import migrated_home

# Each run of an item adds a line to `runs`; the item `wait` waits for the file `go`, unless it is there.
RECORD = 'echo $1 >> runs; test $1 != wait || until test -e go; do sleep 0.02; done; echo "<$1>"'
SH = ["--", "sh", "-c", RECORD, "sh"]


def runs(line: Line) -> Counter[str]:
    path = line.cwd / "runs"
    return Counter(path.read_text().split()) if path.exists() else Counter()


def until_done(home: Path, count: int) -> None:
    with Client(find({"SEMANTICA_HOME": str(home)})) as client:
        events = client.subscribe(since=0, event_types=["job.done"])
        for _ in range(count):
            next(events)


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[tuple[Process, Line]]:
    """A daemon of its own, which a test may kill."""
    with migrated_home() as home:
        (home / "config.toml").write_text("[daemon]\nmax_slots = 2\ngrace_ms = 1000\n")
        with no_daemon_left(home), Process(home) as process:
            yield process.start(), Line(home, tmp_path)


def test_ctrl_c_leaves_the_jobs_running_and_resume_shows_the_rest(line: Line) -> None:
    begun = line.start("map", "--name", "left", "-j", "1", *SH, ":::", "a", "wait", "b", "c")
    begun.until("<a>\n")
    begun.signal(signal.SIGINT)
    result = begun.result()
    assert (result.code, result.out) == (130, "<a>\n")
    assert "map left goes on, 3 items are left; come back with `semantica map --resume left`" in result.err
    (line.cwd / "go").touch()
    resumed = line("map", "--resume", "left")
    assert (resumed.code, resumed.out) == (0, "<wait>\n<b>\n<c>\n")
    assert runs(line) == Counter(["a", "wait", "b", "c"])


def test_what_ended_while_nobody_watched_is_shown_by_resume(crashing: tuple[Process, Line]) -> None:
    daemon, line = crashing
    begun = line.start("map", "-j", "1", "--name", "away", *SH, ":::", "wait", "b", "c")
    until_started(daemon.home, "wait")
    begun.process.kill()
    begun.result()
    (line.cwd / "go").touch()
    until_done(daemon.home, 3)
    assert line("map", "--resume").out == "<wait>\n<b>\n<c>\n"
    again = line("map", "--resume")
    assert (again.code, again.out) == (0, "")
    assert "3 done" in again.err


def until_started(home: Path, item: str) -> None:
    with Client(find({"SEMANTICA_HOME": str(home)})) as client:
        for event in client.subscribe(since=0, event_types=["job.started"]):
            if client.get(event["job_id"] or "")["subject_key"] == item:
                return


def test_resume_adds_the_items_that_were_not_read_and_runs_none_twice(crashing: tuple[Process, Line]) -> None:
    """The command is killed while its stdin is open: the daemon has the first items only."""
    daemon, line = crashing
    begun = line.start("map", "--name", "part", *SH, stdin=subprocess.PIPE)
    assert begun.process.stdin is not None
    begun.process.stdin.write(b"a\nb\n")
    begun.process.stdin.flush()
    until_done(daemon.home, 2)
    begun.process.kill()
    shown = begun.result().out
    rest = line("map", "--resume", "--name", "part", "-k", *SH, stdin="a\nb\nc\nd\n")
    assert rest.code == 0
    assert set((shown + rest.out).split()) == {"<a>", "<b>", "<c>", "<d>"}
    assert "4 done" in rest.err
    assert runs(line) == Counter("abcd")


def test_a_daemon_that_is_killed_and_started_again_is_followed_on(crashing: tuple[Process, Line]) -> None:
    daemon, line = crashing
    begun = line.start("--no-autostart", "map", "-k", "-j", "1", *SH, ":::", "a", "wait", "b")
    begun.until("<a>\n")
    until_started(daemon.home, "wait")
    daemon.kill()
    (line.cwd / "go").touch()
    daemon.start()
    result = begun.result()
    assert (result.code, result.out) == (0, "<a>\n<wait>\n<b>\n")
    assert runs(line) == Counter(["a", "wait", "wait", "b"])


def test_a_daemon_that_is_killed_is_started_by_the_map_itself(crashing: tuple[Process, Line]) -> None:
    daemon, line = crashing
    begun = line.start("map", "-k", "-j", "1", *SH, ":::", "a", "wait", "b")
    begun.until("<a>\n")
    until_started(daemon.home, "wait")
    daemon.kill()
    (line.cwd / "go").touch()
    result = begun.result()
    assert (result.code, result.out) == (0, "<a>\n<wait>\n<b>\n")
    assert "started the daemon" in result.err
    assert runs(line) == Counter(["a", "wait", "wait", "b"])


def test_ctrl_c_works_while_there_is_no_daemon_and_resume_starts_another(crashing: tuple[Process, Line]) -> None:
    daemon, line = crashing
    begun = line.start("--no-autostart", "map", "--name", "lost", "-j", "1", *SH, ":::", "a", "wait", "b")
    begun.until("<a>\n")
    until_started(daemon.home, "wait")
    daemon.kill()
    begun.until("waiting for it to come back", "err")
    begun.signal(signal.SIGINT)
    result = begun.result()
    assert (result.code, "`semantica map --resume lost`" in result.err) == (130, True)
    (line.cwd / "go").touch()
    resumed = line("map", "--resume", "lost", "-k")
    assert (resumed.code, resumed.out) == (0, "<wait>\n<b>\n")
    assert runs(line) == Counter(["a", "wait", "wait", "b"])


def test_a_second_ctrl_c_cancels_the_jobs_and_resume_runs_what_was_cancelled(line: Line) -> None:
    words = ["--name", "two", "-j", "1", *SH, ":::", "a", "wait", "b"]
    begun = line.start("map", *words)
    begun.until("<a>\n")
    begun.signal(signal.SIGINT)
    begun.until("another Ctrl-C now", "err")
    begun.signal(signal.SIGINT)
    result = begun.result()
    assert (result.code, result.out) == (130, "<a>\n")
    assert "1 done, 2 cancelled" in result.err
    (line.cwd / "go").touch()
    resumed = line("map", "--resume", *words)
    assert (resumed.code, sorted(resumed.out.split())) == (0, ["<b>", "<wait>"])
    assert runs(line)["a"] == 1


def test_resume_without_items_runs_what_was_cancelled_too(line: Line) -> None:
    script = ["--", "sh", "-c", "test -e good && echo $1 {#}", "sh", "{}"]
    halted = line("map", "--name", "rest", "-j", "1", "--halt", "soon,fail=1", *script, ":::", *"abcdef")
    assert (halted.code, halted.out) == (1, "")
    (line.cwd / "good").touch()
    resumed = line("map", "--resume", "rest", "-k")
    assert (resumed.code, resumed.out) == (1, "b 2\nc 3\nd 4\ne 5\nf 6\n")
    failed = line("map", "--resume", "rest", "--resume-failed")
    assert (failed.code, failed.out) == (0, "a 1\n")
    assert line("map", "--resume", "rest", "--resume-failed").out == ""


def test_failed_items_run_again_only_on_request(line: Line) -> None:
    words = ["--name", "again", "--", "sh", "-c", "echo $1 >> runs; test -e good", "sh", ":::", "a", "b"]
    assert line("map", *words).code == 2
    (line.cwd / "good").touch()
    assert line("map", "--resume", *words).code == 2
    assert line("map", "--resume-failed", *words).code == 0, "which implies --resume"
    assert line("map", "--resume", "--resume-failed", *words).code == 0
    assert runs(line) == Counter("aabb")


def test_another_command_is_not_taken_for_the_map_that_is_resumed(line: Line) -> None:
    line("map", "--name", "mine", "--", "echo", ":::", "a")
    result = line("map", "--resume", "mine", "--", "rm", ":::", "a")
    assert (result.code, "runs another command: echo" in result.err) == (DATA, True)


def test_results_and_tags_of_a_resumed_map_have_their_items(line: Line) -> None:
    begun = line.start("map", "--name", "tags", "-j", "1", *SH, ":::", "a", "wait", "b/c")
    begun.until("<a>\n")
    begun.process.kill()
    begun.result()
    (line.cwd / "go").touch()
    resumed = line("map", "--resume", "tags", "--tag", "--results", "out")
    assert resumed.out.endswith("wait\t<wait>\nb/c\t<b/c>\n")
    assert (line.cwd / "out" / "1" / "b\\_c" / "stdout").read_text() == "<b/c>\n"
    assert (line.cwd / "out" / "1" / "b\\_c" / "seq").read_text() == "3"
