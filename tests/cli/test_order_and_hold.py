"""`move`, `edit`, `hold` and `release` on the command line: what they change, print and refuse."""

from collections.abc import Iterator

import pytest

from tests.cases import each_case
from tests.cli.command_line import Line


@pytest.fixture
def paused(line: Line) -> Iterator[Line]:
    """With a queue `still` whose jobs do not start; it is empty again afterwards."""
    line("queue", "set", "--create", "still", "--slots", "1")
    line("queue", "pause", "still")
    yield line
    line("cancel", "-q", "-Q", "still")


def added(line: Line, *options: str) -> str:
    return line("add", "-q", "-Q", "still", *options, "--", "echo", "hello").out.strip()


def order(line: Line) -> list[str]:
    """The jobs of the queue by the number of those ahead of them."""
    jobs = line("list", "-q", "-Q", "still", "--state", "queued").out.split()
    return sorted(jobs, key=lambda job_id: int(line("why", "--json", job_id).json["queue_position"]))


def test_move_changes_the_order_and_names_the_place(paused: Line) -> None:
    a, b, c = (added(paused) for _ in range(3))
    result = paused("move", c, "--front")
    assert result == (0, f"{c}\n", f"semantica: job {c[:8]} is next in its queue; its priority is 0\n")
    assert paused("move", "-q", a, "--after", b) == (0, f"{a}\n", "")
    assert order(paused) == [c, b, a]
    moved = paused("move", "--json", b, "--before", c).json
    assert set(moved) == {"position", "priority"}
    assert "has 2 jobs ahead of it" in paused("move", b, "--back").err
    assert order(paused) == [c, a, b]


def test_a_move_that_cannot_be_says_why(paused: Line) -> None:
    job_id, scheduled = added(paused), added(paused, "--after", "1h")
    assert paused("move", job_id).code == 64
    assert paused("move", job_id, "--front", "--back").code == 64
    result = paused("move", scheduled, "--front")
    assert (result.code, result.out) == (65, "")
    assert result.err.splitlines()[0] == f"semantica: job {scheduled} is SCHEDULED"
    assert "`semantica edit` changes its priority" in result.err
    assert paused("move", job_id, "--before", scheduled).err.startswith(f"semantica: --before: job {scheduled} is SCH")
    other = paused("add", "-q", "--on-event", "never", "--", "true").out.strip()
    assert paused("move", other, "--back").code == 65
    assert paused("move", "00000000", "--front").code == 65


def test_edit_changes_what_is_given_and_no_more(paused: Line) -> None:
    job_id = added(paused, "-t", "old", "--env", "A=1")
    result = paused("edit", job_id, "-p", "high", "--tag", "new", "--env", "B=2", "--", "printenv", "A", "B")
    assert result == (0, f"{job_id}\n", f"semantica: job {job_id[:8]} is changed; it is QUEUED\n")
    job = paused("show", "--json", job_id).json
    assert (job["priority"], job["user_tag"], job["env_vars"]) == (10, "new", {"A": "1", "B": "2"})
    assert job["payload"]["argv"] == ["printenv", "A", "B"]
    assert set(job["payload"]) == {"argv", "cwd", "umask"}
    assert paused("edit", "--json", job_id, "--tag", "").json["user_tag"] is None


def test_edit_changes_the_time(paused: Line) -> None:
    job_id = added(paused)
    assert paused("edit", "--json", job_id, "--at", "1h").json["state"] == "SCHEDULED"
    assert paused("edit", "--json", job_id, "--at", "now").json["state"] == "QUEUED"


def test_edit_keeps_secrets_and_takes_new_ones(line: Line) -> None:
    secret = {"OLD_TOKEN": "abc", "NEW_TOKEN": "def"}
    job_id = line("add", "-q", "--hold", "--env", "OLD_TOKEN", "--", "true", **secret).out.strip()
    script = 'test "$OLD_TOKEN,$NEW_TOKEN" = abc,def'
    line("edit", job_id, "--env", "NEW_TOKEN", "--", "sh", "-c", script, **secret)
    job = line("show", "--json", job_id).json
    assert job["env_vars"] == {"OLD_TOKEN": "***", "NEW_TOKEN": "***"}
    line("release", job_id)
    assert line("wait", job_id).code == 0


def test_edit_changes_the_payload_of_a_handler(line: Line) -> None:
    job_id = line("add", "-q", "--hold", "--type", "semantica.echo", "--payload", '{"a": 1}').out.strip()
    assert line("edit", "--json", job_id, "--payload", '{"a": 2}').json["payload"] == {"a": 2}
    result = line("edit", job_id, "--", "true")
    assert (result.code, "runs no command" in result.err) == (65, True)
    assert line("edit", job_id, "--env", "A=1").code == 65
    line("release", "-q", job_id)


@each_case("words", [(), ("--priority", "urgent"), ("--at", "soonish"), ("-p", "200"), ("--payload", "[]")])
def test_an_edit_that_cannot_be_is_refused(paused: Line, words: tuple[str, ...]) -> None:
    job_id = added(paused)
    before = paused("show", "--json", job_id).json
    assert paused("edit", job_id, *words).code in (64, 65)
    assert paused("show", "--json", job_id).json == before


def test_what_has_ended_is_not_edited(line: Line) -> None:
    line("run", "-q", "--", "true")
    result = line("edit", "@last", "-p", "low")
    assert (result.code, "`semantica retry`" in result.err) == (65, True)


def test_a_job_is_added_held_and_listed_as_such(line: Line) -> None:
    result = line("add", "--hold", "-Q", "kept", "--", "true")
    job_id = result.out.strip()
    assert result.err == f"semantica: job {job_id[:8]} starts when it is released\n"
    assert line("list", "-q", "--held", "-Q", "kept").out == f"{job_id}\n"
    assert "when released" in line("list", "-Q", "kept").out
    assert "`semantica release` lets it start" in line("why", job_id).out
    assert "(held since " in line("show", job_id).out
    assert line("release", job_id) == (0, f"{job_id}\n", f"semantica: job {job_id[:8]} is released\n")
    assert line("wait", job_id).code == 0
    assert line("list", "-q", "--held", "-Q", "kept").out == ""


def test_a_selection_is_held_and_released(paused: Line) -> None:
    mine = [added(paused, "-t", "mine") for _ in range(2)]
    other = added(paused)
    dry = paused("hold", "--tag", "mine", "--dry-run")
    assert dry == (0, "".join(f"{one}\n" for one in mine), "semantica: 2 jobs would be held\n")
    assert paused("list", "-q", "--held", "-Q", "still").out == ""
    assert paused("hold", "--tag", "mine").err == "semantica: 2 jobs are held\n"
    assert set(paused("list", "-q", "--held", "-Q", "still").out.split()) == set(mine)
    again = paused("hold", mine[0])
    assert (again.code, again.out, "held already" in again.err) == (0, "", True)
    assert paused("release", other).err == f"semantica: job {other[:8]} is not held\n"
    assert paused("release", "--json", "-Q", "still").json == {"changed": mine, "unchanged": [other]}
    assert paused("release", "--tag", "mine").err == "semantica: no held job has tag mine\n"


@each_case("command", ["hold", "release", "archive", "cancel"])
def test_a_selection_is_needed_and_only_one(line: Line, command: str) -> None:
    assert line(command).code == 64
    assert line(command, "@last", "--tag", "x").code == 64
    assert line(command, "--schedule", "nosuch").code == 65


def test_the_jobs_of_a_schedule_are_selected_by_its_name(line: Line) -> None:
    line("template", "put", "kept", "--hold", "--", "true")
    line("schedule", "put", "kept", "--template", "kept", "--cron", "@yearly")
    job_id = line("schedule", "trigger", "kept", "--json").json["job"]["job_id"]
    assert line("release", "--schedule", "kept", "--dry-run").out == f"{job_id}\n"
    assert line("cancel", "--schedule", "kept").out == f"{job_id}\n"
    assert line("wait", "--schedule", "kept").code == 1
    line("schedule", "delete", "kept")
    line("template", "delete", "kept")


def test_cancel_can_be_tried_first(paused: Line) -> None:
    job_id = added(paused)
    dry = paused("cancel", job_id, "--dry-run")
    assert dry == (0, f"{job_id}\n", "semantica: 1 job would be ended\n")
    assert paused("show", "--json", job_id).json["state"] == "QUEUED"
