"""`add --every`, `schedule` and `template`: work that comes again and again, from the line and back."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Line
from tests.harness import Process, RpcError


@pytest.fixture
def template(daemon: Process, tmp_path: Path) -> str:
    """Its name; of a job that writes what it is given."""
    payload = {"argv": ["sh", "-c", "echo ${WORD-none}; pwd -P"], "cwd": str(tmp_path)}
    spec = {"job_type": "sh", "queue": "kept", "execution_mode": "SUBPROCESS", "payload": payload}
    daemon.call("template.put", name="kept", spec=spec)
    return "kept"


@pytest.fixture
def schedule(daemon: Process, template: str) -> Iterator[str]:
    """Its name; it never comes by itself within a test. Deleted afterwards, because a put keeps whether it is on."""
    daemon.call("schedule.put", name="yearly", template_id=template, cron_expression="@yearly")
    yield "yearly"
    with suppress(RpcError):  # a test may have deleted it
        daemon.call("schedule.delete", schedule_id="yearly")


def test_every_makes_a_schedule_and_prints_its_next_instants(line: Line, daemon: Process, tmp_path: Path) -> None:
    result = line(
        "add", "--every", "30 3 * * *", "-Q", "night", "--timeout", "1h", "--", "echo", "a b", TZ="Asia/Tokyo"
    )
    assert result.code == 0
    found = daemon.call("schedule.get", schedule_id=result.out.strip())
    assert found["name"] == result.out.strip()
    elsewhere = line("show", found["schedule_id"])
    assert elsewhere.code == 65
    assert elsewhere.err == (
        f"semantica: that is schedule {found['name']}\n  `semantica schedule show {found['name']}` shows it\n"
    )
    assert (found["cron_expression"], found["timezone"], found["enabled"]) == ("30 3 * * *", "Asia/Tokyo", True)
    assert (found["misfire"], found["overlap"]) == ("run_once", "queue")
    assert result.err.startswith(f"semantica: schedule {found['name']} is new; next: 03:30:00")
    assert result.err.count("03:30:00") == 3
    assert result.err.endswith(" (Asia/Tokyo)\n")
    spec = daemon.call("template.get", template_id=found["name"])["spec"]
    assert (spec["queue"], spec["timeout_ms"], spec["job_type"]) == ("night", 3_600_000, "echo")
    assert spec["payload"]["argv"] == ["echo", "a b"]
    assert spec["payload"]["cwd"] == str(tmp_path.resolve())


def test_the_same_line_again_changes_it_and_in_another_folder_makes_another(line: Line, tmp_path: Path) -> None:
    first = line("add", "--every", "@daily", "--", "echo", "again")
    second = line("add", "--every", "@weekly", "--", "echo", "again")
    assert first.out == second.out
    assert " is changed; " in second.err
    (tmp_path / "other").mkdir()
    other = line("add", "--every", "@daily", "-C", "other", "--", "echo", "again")
    assert other.out != first.out


def test_every_takes_a_name_policies_conditions_and_another_zone(line: Line, daemon: Process) -> None:
    words = ["--name", "n1", "--zone", "America/New_York", "--misfire", "skip", "--overlap", "supersede"]
    result = line("add", "--every", "0 3 * * *", *words, "--when-idle", "--after", "1m", "--", "true")
    found = daemon.call("schedule.get", schedule_id="n1")
    assert (found["timezone"], found["misfire"], found["overlap"]) == ("America/New_York", "skip", "supersede")
    assert result.err.endswith(" (your time; cron by America/New_York)\n")
    schedule = daemon.call("template.get", template_id="n1")["spec"]["schedule"]
    assert schedule == {"type": "AFTER", "delay_ms": 60_000, "wait_for_idle": True}


def test_every_prints_the_name_and_json_too(line: Line) -> None:
    quiet = line("add", "-q", "--every", "@daily", "--name", "n2", "--", "true")
    assert (quiet.out, quiet.err) == ("n2\n", "")
    answers = line("add", "--json", "--every", "@daily", "--name", "n2", "--", "true").json
    assert (answers["template"]["name"], answers["template"]["created"]) == ("n2", False)
    assert answers["schedule"]["name"] == "n2"


def test_a_schedule_that_is_refused_leaves_everything_as_it_was(line: Line, daemon: Process) -> None:
    assert line("add", "--every", "0 3 30 2 *", "--name", "fresh", "--", "true").code == 64
    with pytest.raises(RpcError):
        daemon.call("template.get", template_id="fresh")
    line("add", "--every", "@daily", "--name", "known", "--", "echo", "old")
    assert line("add", "--every", "0 3 30 2 *", "--name", "known", "--", "echo", "new").code == 64
    assert daemon.call("template.get", template_id="known")["spec"]["payload"]["argv"] == ["echo", "old"]


def test_secrets_are_not_kept(line: Line, daemon: Process) -> None:
    result = line("add", "--every", "@daily", "--env", "API_TOKEN", "--", "true", API_TOKEN="hunter2")
    assert (result.code, result.out) == (64, "")
    assert "--env API_TOKEN: secrets are never stored, so --every cannot have it" in result.err
    result = line("add", "--every", "@daily", "--name", "all", "--env-all", "--", "true", API_TOKEN="hunter2", MINE="1")
    assert (result.code, "not stored, because" in result.err, "API_TOKEN" in result.err) == (
        0,
        True,
        True,
    )
    kept = daemon.call("template.get", template_id="all")["spec"]["env_vars"]
    assert (kept["MINE"], "API_TOKEN" in kept) == ("1", False)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--every", "@daily", "--key", "k"), "--every: --key is for one job"),
        (("--every", "@daily", "--generation", "1", "-s", "x"), "--every: --generation is for one job"),
        (("--every", "@daily", "--newest-wins", "/"), "--every: --newest-wins is for one job"),
        (("--every", "@daily", "--at", "02:00"), "--every: --at is for one job"),
        (("--every", "@daily", "--deadline", "1h"), "use --ttl"),
        (("--every", "@daily", "--template", "t"), "semantica schedule put NAME --template t --every '@daily'"),
        (("--every", "61 * * * *"), "the cron expression: minute cannot be '61'"),
        (("--every", "@daily", "--zone", "Europe/Berln"), "did you mean Europe/Berlin?"),
        (("--every", "@daily", "--timeout", "0"), "--timeout"),
        (("--every", "@daily", "--misfire", "never"), "invalid choice"),
    ],
)
def test_wrong_words_about_every_are_usage_errors(line: Line, words: tuple[str, ...], sentence: str) -> None:
    result = line("add", *words, "--", "echo", "wrong")
    assert (result.code, result.out) == (64, "")
    assert sentence in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("command", ["run", "plan"])
def test_run_and_plan_refuse_every(line: Line, command: str) -> None:
    result = line(command, "--every", "@daily", "--", "true")
    assert (result.code, result.out) == (64, "")
    assert "use `semantica add --every`" in result.err
    assert "--every" not in line(command, "--help").out


def test_an_unknown_zone_is_reported_also_when_it_is_the_users(line: Line) -> None:
    result = line("add", "--every", "@daily", "--", "true", TZ="CET-1CEST")
    assert result.code == 64
    assert "--zone: time zone 'CET-1CEST' isn't known" in result.err


def test_schedules_are_a_table(line: Line, schedule: str) -> None:
    for words in (("schedule",), ("schedule", "list")):
        table = line(*words).out.splitlines()
        head = table[0].replace("NEXT (YOUR TIME)", "NEXT").split()
        assert head == ["NAME", "STATE", "WHEN", "ZONE", "TEMPLATE", "NEXT", "LAST", "ENDED"]
        assert any(row.split()[:5] == ["yearly", "on", "@yearly", "UTC", "kept"] for row in table)
    ids = line("schedule", "-q").out.split()
    assert line("schedule", "show", "-q", "yearly").out.strip() in ids
    assert [one["schedule_id"] for one in line("--json", "schedule").json["schedules"]] == ids
    assert "yearly" in line.on_terminal("schedule").out


def test_a_schedule_is_shown_with_its_next_instants(line: Line, schedule: str) -> None:
    shown = line("schedule", "show", schedule).out
    assert "when      @yearly (UTC)\n" in shown
    assert shown.count("-01-01 00:00:00") == 5
    assert line("schedule", "show", schedule, "--json").json["template_name"] == "kept"
    result = line("schedule", "next", schedule, "-n", "2")
    assert [row.split(",")[0][4:] for row in result.out.splitlines()] == ["-01-01 00:00:00", "-01-01 00:00:00"]
    assert len(line("schedule", "next", schedule, "--json").json["upcoming"]) == 5
    assert len(line("schedule", "next", schedule, "-n", "9").out.splitlines()) == 9
    assert "no more than 100 are computed" in line("schedule", "next", schedule, "-n", "101").err


def test_a_schedule_is_switched_off_and_on(line: Line, schedule: str) -> None:
    assert line("schedule", "disable", schedule).err == "semantica: schedule yearly is off; the jobs it added stay\n"
    assert any(row.split()[:2] == ["yearly", "off"] for row in line("schedule").out.splitlines())
    assert "it is off" in line("schedule", "next", schedule).err
    assert "schedule yearly is on; next: " in line("schedule", "enable", schedule).err
    assert line("schedule", "disable", schedule, "--json").json["next_trigger_at"] is None
    line("schedule", "put", schedule, "--template", "kept", "--cron", "@yearly", "--disabled")
    assert line("schedule", "show", schedule, "--json").json["enabled"] is False


def test_a_trigger_makes_a_job_with_the_schedules_parameters(line: Line, daemon: Process, schedule: str) -> None:
    words = ("schedule", "put", schedule, "--template", "kept", "--cron", "@yearly")
    line(*words, "--param", "cwd=/usr")
    result = line("schedule", "trigger", schedule)
    job_id = result.out.strip()
    assert f"schedule yearly added job {job_id[:8]}; next: " in result.err
    assert line("wait", "@last", "--timeout", "20s").code == 0
    assert line("logs", job_id).out == "none\n/usr\n"
    job = daemon.call("job.get", job_id=job_id)
    shown = line("show", job_id).out
    for word, field in (("template", "template_id"), ("schedule", "schedule_id")):
        assert [word, job[field]] in [row.split() for row in shown.splitlines()]
    line(*words, "--params", '{"cwd": "/etc", "umask": 63}')
    assert 'parameters  {"cwd": "/etc", "umask": 63}\n' in line("schedule", "show", schedule).out
    assert line("schedule", "trigger", schedule, "--json").json["job"]["queue"] == "kept"


def test_the_list_shows_how_the_last_job_of_each_schedule_ended(line: Line) -> None:
    line("add", "--every", "@yearly", "--name", "fails", "--", "sh", "-c", "exit 3")
    assert line("schedule", "show", "fails", "--json").json["last_job_state"] is None
    line("schedule", "trigger", "fails")
    assert line("wait", "@last").code == 3
    row = next(row for row in line("schedule").out.splitlines() if row.startswith("fails "))
    assert row.endswith(" FAILED (3)")
    shown = line("schedule", "show", "fails").out
    assert f"last job  {line('show', '-q', '@last').out.strip()}, FAILED (3)\n" in shown


def test_a_trigger_that_is_skipped_reports_why(line: Line, template: str) -> None:
    line("template", "put", "slow", "--on-event", "never", "--", "true")
    line("schedule", "put", "slow", "--template", "slow", "--cron", "@yearly", "--overlap", "skip")
    first = line("schedule", "trigger", "slow").out.strip()
    result = line("schedule", "trigger", "slow")
    assert (result.code, result.out) == (0, "")
    assert "schedule slow added no job: its previous one is not over, and overlap is skip" in result.err
    line("cancel", first)


def test_a_schedule_is_deleted_and_then_its_template(line: Line, schedule: str) -> None:
    refused = line("template", "delete", "kept")
    assert (refused.code, refused.out) == (65, "")
    assert "template kept is used by schedule yearly" in refused.err
    assert "schedule yearly is deleted" in line("schedule", "delete", schedule).err
    assert "template kept is deleted" in line("template", "delete", "kept").err
    for name in ("schedule", "template"):
        result = line(name, "show", "kept")
        assert result.code == 65
        assert f"`semantica {name} list` shows the {name}s" in result.err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("schedule", "frobnicate"), 64, "list, show, put"),
        (("schedule", "tigger", "x"), 64, "did you mean trigger?"),
        (("schedule", "show"), 64, "NAME"),
        (("schedule", "put", "x"), 64, "--template"),
        (("schedule", "put", "x", "--template", "kept"), 64, "--cron"),
        (("schedule", "put", "x", "--template", "nowhere", "--cron", "@daily"), 65, "no template nowhere"),
        (("schedule", "put", "x", "--template", "kept", "--cron", "@daily", "--param", "y"), 64, "write KEY=VALUE"),
        (("schedule", "put", "x", "--template", "kept", "--cron", "@daily", "--params", "["), 65, "not JSON"),
        (("schedule", "next", "x", "-n", "0"), 64, "not a number"),
        (("schedule", "trigger", "nowhere"), 65, "no schedule nowhere"),
        (("template", "pt", "x"), 64, "did you mean put?"),
        (("template", "put", "x"), 64, "nothing to run"),
        (("template", "put", "--", "true"), 64, "NAME"),
        (("template", "put", "x", "true"), 64, "true is not known here"),
        (("template", "put", "x", "--at", "02:00", "--", "true"), 64, "a template: --at is for one job"),
        (("template", "put", "x", "-e", "MY_KEY=1", "--", "true"), 64, "--env MY_KEY: secrets are never stored"),
        (("template", "run", "nowhere"), 65, "no template nowhere"),
        (("add", "--template", "nowhere"), 65, "no template nowhere"),
    ],
)
def test_wrong_words_about_them_are_refused_with_a_reason(
    line: Line, template: str, words: tuple[str, ...], code: int, sentence: str
) -> None:
    result = line(*words)
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err
    assert "Traceback" not in result.err


def test_a_template_is_put_changed_and_shown(line: Line) -> None:
    first = line("template", "put", "mine", "--attempts", "3", "--when-idle", "--", "make", "it go")
    assert first.err == "semantica: template mine is new\n"
    second = line("template", "put", "mine", "--on-event", "x", "--", "make", "it go")
    assert (second.out, second.err) == (first.out, "semantica: template mine is changed\n")
    shown = line("template", "show", "mine").out
    assert "make 'it go'\n" in shown
    assert "starts       when event x is emitted\n" in shown
    rows = line("template", "list").out.splitlines()
    assert rows[0].split() == ["NAME", "TYPE", "QUEUE", "SCHEDULES", "CHANGED", "WHAT"]
    assert any(row.startswith("mine ") and row.endswith("make 'it go'") for row in rows)
    assert first.out in line("template", "-q").out.splitlines(True)
    assert line("template", "show", "mine", "--json").json["name"] == "mine"
    assert line("template", "put", "mine", "--json", "--", "true").json["created"] is False


def test_a_template_is_run_with_what_is_given_laid_over_it(line: Line, template: str, tmp_path: Path) -> None:
    here = str(tmp_path.resolve())
    assert line("template", "run", template) == (0, f"none\n{here}\n", "")
    assert line("run", "--template", template, "-e", "WORD=hi", "-C", "/usr").out == "hi\n/usr\n"
    assert line("run", "--template", template, "--", "echo", "other").out == "other\n"
    job: Any = line("run", "--json", "--template", template, "-Q", "else", "--", "true").json
    assert (job["queue"], job["job_type"]) == ("else", "sh")


def test_a_template_of_a_handler_gets_its_payload(line: Line) -> None:
    line("template", "put", "echoes", "--type", "semantica.echo", "--payload", '{"a": 1, "b": 2}')
    assert line("template", "run", "echoes", "--payload", '{"b": 3}').json == {"a": 1, "b": 3}
    assert line("add", "--template", "echoes", "--json").json["queue"] == "default"
    assert '{"a": 1, "b": 2}' in line("template", "list").out


def test_a_verb_has_help_of_its_own(line: Line) -> None:
    result = line("help", "schedule", "put")
    assert result == line("schedule", "put", "--help")
    assert result.out.startswith("usage: semantica schedule put ")
    assert "trigger   Add a job now" in line("schedule", "--help").out
    for verb in ("list", "show", "put", "delete", "run"):
        assert "examples:\n  semantica template" in line("template", verb, "--help").out


def test_a_schedule_of_another_zone_says_whose_time_it_shows(line: Line) -> None:
    line("add", "--every", "daily 03:00", "--name", "far", "--zone", "Asia/Tokyo", "--", "true")
    assert "NEXT (YOUR TIME)" in line("schedule").out
    assert "NEXT (YOUR TIME)" in line("status").out
    line("schedule", "delete", "far")


def test_a_schedule_that_is_off_adds_a_job_and_says_so(line: Line) -> None:
    line("add", "--every", "daily 03:00", "--name", "quiet", "--", "true")
    line("schedule", "disable", "quiet")
    assert line("schedule", "trigger", "quiet").err.endswith("; the schedule is off\n")
    line("schedule", "delete", "quiet")


def test_a_template_is_shown_in_the_words_of_show(line: Line) -> None:
    line("template", "put", "worded", "--timeout", "5m", "-t", "nightly", "--attempts", "3", "-e", "MODE=1", "--", "ls")
    shown = dict(row.split("  ", 1) for row in line("template", "show", "worded").out.splitlines())
    assert {"command", "folder", "timeout", "tag", "attempts", "environment"} <= shown.keys()
    assert not any("_" in name for name in shown)
    assert shown["timeout"].strip() == "5m00s"
    line("template", "delete", "worded")
