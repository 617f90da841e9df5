"""`semantica reserve`, `unreserve` and `run --now`: what they print and return, and what is left of them."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import COMMAND, Line, StartedCommand
from tests.harness import Process


@pytest.fixture(autouse=True)
def nothing_is_reserved(daemon: Process) -> Iterator[None]:
    yield
    found = active(daemon)
    assert found is None, found


def active(daemon: Process) -> Any:
    return daemon.call("reservation.get")["reservation"]


def until(condition: Any, seconds: float = 40) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def state(daemon: Process, job_id: str) -> str:
    return str(daemon.call("job.get", job_id=job_id)["state"])


def test_without_a_command_it_prints_the_id_and_jobs_wait_until_it_is_released(line: Line, daemon: Process) -> None:
    made = line("reserve", "--for", "5m")
    found = active(daemon)
    assert (made.code, made.out.strip()) == (0, found["reservation_id"])
    assert "no other job starts before `semantica unreserve`" in made.err
    assert 290_000 < found["expires_at"] - found["reserved_at"] <= 300_000
    job_id = line("add", "-q", "--", "true").out.strip()
    assert "reserved by semantica reserve until" in line("why", job_id).out
    status = line("status").out
    assert f"reserved by semantica reserve until {clock(found)}: no other job starts" in status
    assert line("unreserve").code == 0
    assert line("wait", job_id, "--timeout", "20s").code == 0
    assert "reserved" not in line("status").out


def clock(found: dict[str, Any]) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(found["expires_at"] / 1000))


def test_a_second_one_is_refused_with_the_holder_and_the_way_out(line: Line, daemon: Process) -> None:
    line("reserve", "--name", "deploy")
    for words in (["reserve"], ["reserve", "--", "true"], ["run", "--now", "--", "true"]):
        refused = line(*words)
        assert (refused.code, refused.out) == (75, ""), words
        assert f"reserved by deploy (semantica reserve) until {clock(active(daemon))}" in refused.err
        assert "--wait 30s" in refused.err
    line("unreserve")


def test_the_json_shapes(line: Line) -> None:
    made = line("reserve", "--json").json
    assert set(made) == {"reservation_id", "expires_at"}
    assert line("status", "--json").json["system"]["reservation"]["reservation_id"] == made["reservation_id"]
    released = line("unreserve", "--json").json
    assert (released["reservation_id"], released["status"]) == (made["reservation_id"], "RELEASED")


def test_unreserve_leaves_what_another_program_has_reserved_unless_it_is_named(line: Line, daemon: Process) -> None:
    made = daemon.call("reservation.acquire", reserved_by="my editor")
    refused = line("unreserve")
    assert (refused.code, "reserved by my editor until" in refused.err) == (65, True)
    assert f"semantica unreserve {made['reservation_id'][:8]}" in refused.err
    assert line("unreserve", made["reservation_id"][:8]).code == 0


@pytest.mark.parametrize("name", ["abcd", "0", "00000000-0000-4000-8000-000000000000"])
def test_an_id_that_nothing_has_is_refused(line: Line, name: str) -> None:
    refused = line("unreserve", name)
    assert (refused.code, f"no reservation {name}" in refused.err) == (65, True)


def test_unreserve_of_nothing_says_so(line: Line) -> None:
    done = line("unreserve")
    assert (done.code, done.err.strip()) == (0, "semantica: nothing is reserved")


# With a command


def test_it_is_held_while_the_command_runs_and_the_code_is_the_command_s(line: Line, daemon: Process) -> None:
    done = line("reserve", "--", "sh", "-c", "cat; exit 5", stdin="from stdin")
    assert (done.code, done.out) == (5, "from stdin")
    running = line.start("reserve", "--", "sh", "-c", "echo here; exec sleep 60")
    running.until("here")
    assert active(daemon)["reserved_by"] == "semantica reserve -- sh -c echo here; exec sleep 60"
    running.signal(signal.SIGTERM)
    assert running.result().code == 128 + signal.SIGTERM, "the signal was handed on"


def test_ctrl_c_ends_the_command_and_then_the_reservation(line: Line, daemon: Process) -> None:
    script = "trap 'echo trapped; exit 7' INT; echo here; while :; do sleep 0.05; done"
    words = [*COMMAND, "reserve", "--", "sh", "-c", script]
    process = subprocess.Popen(
        words, env=line.env, cwd=line.cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    running = StartedCommand(process)
    running.until("here")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert running.result()[:2] == (7, "here\ntrapped\n")


@pytest.mark.parametrize(("command", "code"), [("/nowhere/no-such", 127), ("/", 126)])
def test_a_command_that_cannot_be_run(line: Line, command: str, code: int) -> None:
    assert line("reserve", "--", command).code == code


def test_it_waits_for_another_reservation_and_says_for_whom(line: Line, daemon: Process) -> None:
    made = daemon.call("reservation.acquire", reserved_by="deploy")
    waiting = line.start("reserve", "--wait", "30s", "--", "echo", "mine")
    waiting.until("reserved by deploy until", "err")
    daemon.call("reservation.release", reservation_id=made["reservation_id"])
    done = waiting.result()
    assert (done.code, done.out) == (0, "mine\n")
    assert "waiting up to 30s" in done.err


def test_a_wait_that_is_interrupted_reserves_nothing(line: Line, daemon: Process) -> None:
    made = daemon.call("reservation.acquire", reserved_by="deploy")
    waiting = line.start("reserve", "--wait", "30s", "--", "echo", "mine")
    waiting.until("waiting up to", "err")
    waiting.signal(signal.SIGINT)
    done = waiting.result()
    assert (done.code, done.out) == (130, "")
    daemon.call("reservation.release", reservation_id=made["reservation_id"])
    daemon.call("admin.health")


def test_kill_9_of_the_command_line_leaves_a_lease_of_a_minute_at_most(line: Line, daemon: Process) -> None:
    running = line.start("reserve", "--", "sh", "-c", "echo $$; exec sleep 60")
    child = int(running.until("\n"))
    running.signal(signal.SIGKILL)
    running.process.wait()
    found = active(daemon)
    assert found["expires_at"] - time.time() * 1000 <= 60_000
    os.kill(child, signal.SIGKILL)
    daemon.call("reservation.release", reservation_id=found["reservation_id"])


def test_one_that_ends_before_the_command_is_told_of(line: Line, daemon: Process, tmp_path: Path) -> None:
    script = 'echo here; while ! [ -e "$0" ]; do sleep 0.05; done'
    running = line.start("reserve", "--for", "1h", "--", "sh", "-c", script, str(tmp_path / "go"))
    running.until("here")
    found = active(daemon)
    assert found["expires_at"] - found["reserved_at"] == 3_600_000
    daemon.call("reservation.release", reservation_id=found["reservation_id"])
    (tmp_path / "go").touch()
    done = running.result()
    assert "other jobs may start beside it" in done.err


# run --now


def test_run_now_is_ahead_of_all_jobs_and_has_the_output_and_the_code_of_run(line: Line, daemon: Process) -> None:
    slow = [line("add", "-q", "--", "sleep", "60").out.strip() for _ in range(3)]
    until(lambda: state(daemon, slow[1]) == "RUNNING")
    done = line("run", "--now", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.code, done.out, done.err) == (3, "out\n", "err\n")
    assert [state(daemon, job_id) for job_id in slow] == ["RUNNING", "RUNNING", "QUEUED"]
    line("cancel", *slow)
    line("wait", *slow)


def test_run_now_reads_stdin_and_takes_options_of_a_job(line: Line, daemon: Process) -> None:
    done = line("run", "--now", "-t", "hot", "--timeout", "30s", "--", "cat", stdin="piped")
    assert (done.code, done.out) == (0, "piped")
    (job,) = daemon.call("job.list", user_tag="hot")["items"]
    assert (job["state"], job["timeout_ms"]) == ("DONE", 30_000)


def test_no_job_starts_beside_run_now_and_ctrl_c_leaves_it_running(line: Line, daemon: Process) -> None:
    running = line.start("run", "--now", "--", "sh", "-c", "echo here; sleep 60")
    running.until("here")
    found = active(daemon)
    other = line("add", "-q", "--", "true").out.strip()
    assert f"reserved by job {found['job_id'][:8]} until" in line("why", other).out
    refused = line("unreserve")
    assert (refused.code, f"semantica cancel {found['job_id'][:8]}" in refused.err) == (65, True)
    running.signal(signal.SIGTERM)
    assert running.result().code == 128 + signal.SIGTERM
    assert active(daemon)["job_id"] == found["job_id"], "the job goes on, and so does its reservation"
    line("cancel", found["job_id"])
    assert line("wait", other, "--timeout", "20s").code == 0


def test_run_now_waits_for_another_reservation(line: Line, daemon: Process) -> None:
    made = daemon.call("reservation.acquire", reserved_by="deploy")
    waiting = line.start("run", "--now", "--wait", "30s", "--", "echo", "mine")
    waiting.until("reserved by deploy until", "err")
    daemon.call("reservation.release", reservation_id=made["reservation_id"])
    done = waiting.result()
    assert (done.code, done.out) == (0, "mine\n")


@pytest.mark.parametrize("words", [["--at", "10m"], ["--when-idle"], ["--on-event", "e"], ["--needs", "@last"]])
def test_run_now_cannot_wait_for_something_else(line: Line, words: list[str]) -> None:
    refused = line("run", "--now", *words, "--", "true")
    assert (refused.code, "--now starts it at once" in refused.err) == (64, True)


def test_wait_belongs_to_now(line: Line) -> None:
    refused = line("run", "--wait", "5s", "--", "true")
    assert (refused.code, "--wait needs --now" in refused.err) == (64, True)


def test_a_template_can_be_run_at_once(line: Line, daemon: Process) -> None:
    line("template", "put", "hello", "--", "echo", "hello")
    assert line("template", "run", "hello", "--now").out == "hello\n"
    assert [event["event_type"] for event in daemon.call("event.list", event_types=["reservation.released"])["events"]]
