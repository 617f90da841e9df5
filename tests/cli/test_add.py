"""`semantica add` and `plan`: the arguments become the fields of the call."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process


def test_add_prints_the_whole_id_and_nothing_else(line: Line, daemon: Process) -> None:
    result = line("add", "--", "true")
    assert (result.code, result.err) == (0, "")
    assert daemon.call("job.get", job_id=result.out.strip())["job_id"] == result.out.strip()


def test_json_is_the_ack(line: Line) -> None:
    ack = line("add", "--json", "-s", "j", "--", "true").json
    assert set(ack) == {"job_id", "queue", "state", "generation", "superseded", "existing", "warnings"}


def _job(line: Line, daemon: Process, *words: str, stdin: str = "") -> Any:
    result = line("add", *words, stdin=stdin)
    assert result.code == 0, result.err
    return daemon.call("job.get", job_id=result.out.strip())


def test_a_command_is_carried_with_its_surroundings(line: Line, daemon: Process, tmp_path: Path) -> None:
    job = _job(line, daemon, "--umask", "077", "--stdin", "--", "/bin/cat", "-", stdin="text")
    here = str(tmp_path.resolve())
    assert job["payload"] == {"argv": ["/bin/cat", "-"], "cwd": here, "umask": 0o77, "stdin": "text"}
    assert (job["execution_mode"], job["job_type"], job["queue"]) == ("SUBPROCESS", "cat", "default")


def test_every_option_reaches_its_field(line: Line, daemon: Process) -> None:
    words = "-Q q1 --type T -s S --generation 7 --supersede subject --on-running cancel -t tag -g group -p high"
    words += " --attempts 3 --backoff linear,2s --backoff-max 5m --retry-on 75,99"
    words += " --timeout 1m --grace 500ms --ttl 1h --on-interrupt requeue --leftovers keep"
    words += " -k key --durable --after 10m --debounce 1m --max-wait 2m"
    job = _job(line, daemon, *words.split(), "--", "true")
    expected = {
        "queue": "q1", "job_type": "T", "subject_key": "S", "generation": 7, "supersede": "subject",
        "on_running": "cancel", "user_tag": "tag", "chain_group_id": "group", "priority": 10, "max_attempts": 3,
        "backoff_base_ms": 2000, "backoff": "linear", "backoff_max_ms": 300_000, "retry_on": {"exit_codes": [75, 99]},
        "timeout_ms": 60_000, "grace_ms": 500, "ttl_ms": 3_600_000,
        "on_interrupt": "requeue", "idempotency_key": "key", "state": "SCHEDULED", "schedule_delay_ms": 600_000,
        "debounce_ms": 60_000, "max_wait_ms": 120_000,
    }  # fmt: skip
    assert {name: job[name] for name in expected} == expected


@each_case(
    ("given", "backoff", "base"),
    [("2s", "exponential", 2000), ("linear", "linear", 1000), ("3s,linear", "linear", 3000)],
)
def test_the_backoff_is_a_delay_a_kind_or_both(
    line: Line, daemon: Process, given: str, backoff: str, base: int
) -> None:
    job = _job(line, daemon, "--backoff", given, "--", "true")
    assert (job["backoff"], job["backoff_base_ms"], job["backoff_max_ms"]) == (backoff, base, 3_600_000)


@each_case(
    ("words", "problem"),
    [
        ("--backoff linnear", "--backoff"),
        ("--retry-on 0", "--retry-on: must be 1 or more"),
        ("--retry-on 256", "--retry-on: must be 255 or less"),
        ("--retry-on 1,x", "--retry-on"),
        ("--retry-on 1 --type semantica.noop", "--retry-on: a handler has no exit codes"),
    ],
)
def test_a_bad_retry_option_is_refused_by_its_name(line: Line, words: str, problem: str) -> None:
    command = () if "--type" in words else ("--", "true")
    result = line("add", *words.split(), *command)
    assert (result.code, problem in result.err) == (64, True), result.err


@each_case(("given", "priority"), [("low", -10), ("normal", 0), ("high", 10), ("-3", -3), ("100", 100)])
def test_priorities_have_names_and_numbers(line: Line, daemon: Process, given: str, priority: int) -> None:
    assert _job(line, daemon, f"-p{given}", "--", "true")["priority"] == priority


def test_keep_returns_the_job_that_waits(line: Line, daemon: Process) -> None:
    first = _job(line, daemon, "-s", "kept", "--keep", "--after", "1h", "--", "make", "all")
    result = line("add", "-s", "kept", "--keep", "--", "make", "all")
    assert (result.out.strip(), first["supersede"]) == (first["job_id"], "keep")
    assert result.err == f"semantica: this is job {first['job_id'][:8]}, which was added before; it is SCHEDULED\n"
    plan = line("plan", "-s", "kept", "--keep", "--", "make", "all")
    assert f"{first['job_id']} would be returned; nothing new is added" in plan.out
    assert "supersede" in line("show", first["job_id"]).out


def test_append_puts_all_commands_of_a_subject_into_one_lane(line: Line, daemon: Process) -> None:
    first, second = (
        _job(line, daemon, "-s", "deploy", "--append", "--after", "1h", "--", *words) for words in (["a"], ["b", "1"])
    )
    assert (first["job_type"], second["job_type"], second["supersede"]) == ("command", "command", "append")
    assert (first["generation"], second["generation"]) == (1, 2)
    assert _job(line, daemon, "-s", "deploy", "--append", "--type", "T", "--", "c")["job_type"] == "T"


def test_gather_keeps_the_arguments_of_the_commands_it_replaces(line: Line, daemon: Process) -> None:
    words = ("-s", "repo", "--gather", "--debounce", "1h", "--", "lint")
    first, second = (_job(line, daemon, *words, name) for name in ("a.py", "b.py"))
    assert (second["job_type"], second["gather"]) == ("lint", True)
    assert second["payload"]["gathered"] == [first["payload"]]
    shown = line("show", second["job_id"]).out
    assert "gathered" in shown
    assert "1 payload" in shown


@each_case(
    ("words", "problem"),
    [
        ("--keep", "--keep needs a subject"),
        ("--append -s a --generation 3", "--append takes no generation"),
        ("--append -s a --debounce 1s", "--append takes no debounce time"),
        ("--append -s a --on-running cancel", "--append interrupts no job"),
        ("--gather", "--gather: there is nothing to gather"),
        ("--keep --append -s a", "a job cannot be added with keep and with append"),
        ("--keep --supersede none -s a", "a job cannot be added with none and with keep"),
    ],
)
def test_modes_that_exclude_each_other_are_refused(line: Line, words: str, problem: str) -> None:
    result = line("add", *words.split(), "--", "true")
    assert (result.code, problem in result.err) == (64, True), result.err


def test_deadline_and_at_are_instants(line: Line, daemon: Process) -> None:
    before = time.time() * 1000
    job = _job(line, daemon, "--deadline", "10m", "--at", "2099-01-01T00:00+00:00", "--", "true")
    assert before + 599_000 < job["deadline"] < before + 630_000
    assert (job["schedule_type"], job["scheduled_at"]) == ("AT", 4_070_908_800_000)


def test_newest_wins_is_the_path_and_when_it_changed(line: Line, daemon: Process, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.py").write_text("x")
    os.utime(tmp_path / "real" / "a.py", ns=(0, 1_700_000_000_123_999_999))
    os.symlink("real", tmp_path / "link")
    job = _job(line, daemon, "--newest-wins", "link/a.py", "--after", "10m", "--", "true")
    assert job["subject_key"] == str(tmp_path.resolve() / "real" / "a.py")
    assert job["generation"] == 1_700_000_000_123


def test_ten_saves_leave_one_job_waiting(line: Line, daemon: Process, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    for save in range(4):
        file.write_text("x")
        os.utime(file, ns=(0, (1_700_000_000_000 + save) * 1_000_000))
        result = line("add", "--newest-wins", "a.py", "--after", "10m", "--", "lint", "a.py")
    assert "supersedes 1 older job" in result.err
    live = line("list", "-q", "--state", "live", "-s", str(file.resolve())).out.split()
    assert live == [result.out.strip()]
    os.utime(file, ns=(0, 1_600_000_000_000_000_000))
    late = line("add", "--newest-wins", "a.py", "--", "lint", "a.py")
    assert late.err == f"semantica: not run: job {live[0][:8]} was added for a newer version of {file.resolve()}\n"
    os.utime(file, ns=(0, 1_600_000_001_000_000_000))
    assert line("run", "--newest-wins", "a.py", "--", "lint", "a.py").err == late.err
    line("cancel", "-s", str(file.resolve()))


@pytest.mark.parametrize("way", ["text", "stdin", "file"])
def test_a_handlers_payload_comes_from_the_line_stdin_or_a_file(
    line: Line, daemon: Process, tmp_path: Path, way: str
) -> None:
    payload = {"a": [1, "ü"]}
    (tmp_path / "payload.json").write_text(json.dumps(payload))
    given = {"text": json.dumps(payload), "stdin": "-", "file": "@payload.json"}[way]
    job = _job(line, daemon, "--type", "semantica.echo", "--payload", given, stdin=json.dumps(payload))
    assert (job["job_type"], job["execution_mode"], job["payload"]) == ("semantica.echo", "IN_PROCESS", payload)


def test_the_same_key_gives_the_same_job(line: Line) -> None:
    first, second = line("add", "-k", "k1", "--", "true"), line("add", "-k", "k1", "--", "true")
    assert first.out == second.out
    assert "added before" in second.err
    other = line("add", "-k", "k1", "--", "false")
    assert other.code == 65


@each_case(
    ("words", "code", "sentence"),
    [
        ((), 64, "nothing to run"),
        (("--",), 64, "nothing to run"),
        (("--", ""), 64, "empty"),
        (("--payload", "{}"), 64, "nothing to run"),
        (("--type", "semantica.echo", "--payload", "{"), 65, "not JSON"),
        (("--type", "semantica.echo", "--payload", "[1]"), 65, "not a JSON object"),
        (("--type", "semantica.echo", "--payload", "@nowhere"), 65, "No such file"),
        (("--type", "semantica.sleep", "--payload", '{"ms": "x"}'), 65, "Expected `int`"),
        (("--payload", "{}", "--", "true"), 64, "both given"),
        (("--type", "semantica.echo", "-C", "/"), 64, "--cwd needs a command"),
        (("--newest-wins", "nowhere", "--", "true"), 65, "No such file"),
        (("--newest-wins", "/", "-s", "x", "--", "true"), 64, "already sets"),
        (("--after", "soon", "--", "true"), 64, "not a duration"),
        (("--deadline", "soon", "--", "true"), 64, "not a time"),
        (("-p", "urgent", "--", "true"), 64, "not a priority"),
        (("-p", "1000", "--", "true"), 64, "priority"),
        (("--umask", "999", "--", "true"), 64, "not a umask"),
        (("--env", "NOT_SET_HERE", "--", "true"), 64, "not set here"),
        (("--env", "1x=y", "--", "true"), 64, "--env 1x: a job cannot"),
        (("--env", "SEMANTICA_JOB_ID=y", "--", "true"), 64, "a job cannot be given"),
        (("--on-running", "wait", "--", "true"), 64, "invalid choice"),
        (("-Q", "a b", "--", "true"), 64, "queue"),
        (("--generation", "1", "--", "true"), 64, "subject"),
    ],
)
def test_wrong_words_are_refused_with_a_reason(line: Line, words: tuple[str, ...], code: int, sentence: str) -> None:
    result = line("add", *words)
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err
    assert result.err.startswith("semantica: ")
    assert "Traceback" not in result.err


def test_a_full_queue_is_worth_another_try(line: Line) -> None:
    line("queue", "set", "--create", "tiny", "--max-queued", "1")
    line("queue", "pause", "--create", "tiny")
    assert line("add", "-Q", "tiny", "--", "true").code == 0
    assert line("add", "-Q", "tiny", "--", "true").code == 75


def test_plan_prints_and_stores_nothing(line: Line, daemon: Process) -> None:
    older = line("add", "-s", "plan", "--after", "10m", "--", "true").out.strip()
    count = len(line("list", "-q", "--all").out.split())
    result = line("plan", "-s", "plan", "--", "true")
    assert (result.code, result.err) == (0, "")
    assert f"supersedes  {older}" in result.out
    assert line("plan", "--json", "-s", "plan", "--", "true").json["would_supersede"] == [older]
    assert line("plan", "-q", "-s", "plan", "--", "true").out == f"{older}\n"
    assert len(line("list", "-q", "--all").out.split()) == count
    line("cancel", older)


def test_the_last_job_has_a_name(line: Line, daemon: Process) -> None:
    first = line("add", "--", "true").out
    second = line("add", "--", "true").out
    assert line("show", "-q", "@last").out == second
    assert (daemon.home / "last").read_text() == second != first
    assert [name for name in os.listdir(daemon.home) if name.startswith("last")] == ["last"]
    assert (daemon.home / "last").stat().st_mode & 0o777 == 0o600


def test_without_a_remembered_one_the_last_job_is_the_newest(line: Line, daemon: Process) -> None:
    newest = daemon.call("job.enqueue", job_type="semantica.noop")["job_id"]
    for text in (None, "", "nonsense", "\xff"):
        (daemon.home / "last").unlink(missing_ok=True)
        if text is not None:
            (daemon.home / "last").write_bytes(text.encode("latin-1"))
        assert line("show", "-q", "@last").out.strip() == newest


@pytest.mark.parametrize("option", ["--tag", "--subject", "--queue"])
def test_an_option_that_is_not_utf_8_is_refused_by_its_text(line: Line, option: str) -> None:
    result = line("add", option, "a\udcff", "--", "true")
    assert (result.code, result.out) == (64, "")
    assert "a\ufffd is not UTF-8" in result.err


def test_limits_of_a_run_are_set_by_options(line: Line, daemon: Process) -> None:
    job_id = line("add", "--nice", "5", "--after", "1h", "--", "true").out.strip()
    assert daemon.call("job.get", job_id=job_id)["limits"] == {"nice": 5}
    assert "nice" in line("show", job_id).out
    refused = line("add", "--memory", "2G", "--cpu", "50%", "--", "true")
    assert refused.code == 64
    assert refused.err.startswith("semantica: --memory: this daemon has no cgroup with the controller memory")
    for words in (["--memory", "much"], ["--memory", "-1"], ["--cpu", "half"], ["--nice", "20"]):
        assert line("add", *words, "--", "true").code == 64
