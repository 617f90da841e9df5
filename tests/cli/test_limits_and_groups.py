"""Concurrency keys, rates, slots and groups on the command line, beside a real daemon."""

from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process

WAITS = ("sh", "-c", "until [ -e go ]; do sleep 0.01; done")


def added(line: Line, *words: str) -> str:
    return line("add", "-q", *words).out.strip()


def states(line: Line, *job_ids: str) -> list[str]:
    return [line("show", "--json", job_id).json["state"] for job_id in job_ids]


def go(line: Line) -> None:
    (line.cwd / "go").touch()


def test_jobs_with_one_concurrency_key_run_one_at_a_time(line: Line) -> None:
    first, second = (added(line, "--concurrency-key", "repo:a", "--", *WAITS) for _ in range(2))
    assert states(line, first, second) == ["RUNNING", "QUEUED"]
    assert f"job {first[:8]} with the key repo:a has not ended" in line("why", second).out
    go(line)
    assert line("wait", first, second).code == 0


def test_a_queue_gets_limits_for_keys_and_a_rate(line: Line) -> None:
    given = ("--key", "repo:*=2", "--key", "api:*=1,5/30s", "--rate", "10/m", "--create")
    result = line("queue", "set", "limited", *given)
    assert result.err == (
        "semantica: queue limited: 2 slots, at most 100000 waiting, on running finish, 10/1m, repo:*=2, api:*=1,5/30s\n"
    )
    assert "10/1m, repo:*=2, api:*=1,5/30s" in line("queue", "list", "limited").out
    line("queue", "set", "limited", "--key", "api:*=none", "--rate", "none")
    assert "repo:*=2\n" in line("queue", "list", "limited").out
    keys = line("queue", "list", "limited", "--json").json["queues"][0]["keys"]
    assert keys == {"repo:*": {"limit": 2, "rate": None}}


@each_case(
    ("words", "problem"),
    [
        (("--rate", "often"), "'often' is not a rate: write 10/1m"),
        (("--key", "repo"), "'repo' is not a limit of keys: write 'repo:*=2'"),
        (("--key", "repo:*=many"), "'many' is not a rate"),
        (("--key", "=2"), "is not a limit of keys"),
    ],
)
def test_a_limit_that_cannot_be_read_is_refused(line: Line, words: tuple[str, ...], problem: str) -> None:
    result = line("queue", "set", "limited", *words)
    assert (result.code, result.out) == (64, "")
    assert problem in result.err


def test_a_rate_is_the_reason_why_a_job_waits(line: Line) -> None:
    line("queue", "set", "slow", "--rate", "1/10m", "--create")
    line("run", "-Q", "slow", "--", "true")
    waiting = added(line, "-Q", "slow", "--", "true")
    assert "the rate of queue slow lets the next job start" in line("why", waiting).out
    line("queue", "set", "slow", "--rate", "none")
    assert line("wait", waiting).code == 0


def test_a_job_takes_the_slots_that_it_asks_for(line: Line) -> None:
    wide = added(line, "--slots", "2", "--", *WAITS)
    behind = added(line, "--", "true")
    assert states(line, wide, behind) == ["RUNNING", "QUEUED"]
    result = line("add", "--slots", "3", "--", "true")
    assert (result.code, "--slots: the job takes 3 slots" in result.err) == (64, True)
    go(line)
    assert line("wait", wide, behind).code == 0


def test_a_sequential_group_that_stops_is_shown_and_waited_for(line: Line) -> None:
    line("group", "create", "release", "--sequential", "--on-failure", "stop")
    assert (
        "exists already with these rules"
        in line("group", "create", "release", "--sequential", "--on-failure", "stop").err
    )
    assert line("group", "wait", "release", "--timeout", "10ms").code == 124
    test = added(line, "-g", "release", "--", "sh", "-c", "until [ -e go ]; do sleep 0.01; done; exit 3")
    upload = added(line, "-g", "release", "--", "true")
    assert f"job {test[:8]} of group release has not ended" in line("why", upload).out
    (shown,) = [row for row in line("group").out.splitlines() if row.startswith("release ")]
    assert shown.split()[1:4] == ["RUNNING", "1", "1"]
    go(line)
    waited = line("group", "wait", "release")
    assert (waited.code, waited.err) == (1, "semantica: group release: FAILED (1 CANCELLED, 1 FAILED)\n")
    assert f"cancelled: job {test[:8]} of its group failed" in line("why", upload).out
    shown = line("group", "show", "release").out
    assert f"stopped  because job {test[:8]} failed" in shown
    assert "one at a time, stop on failure" in shown
    assert line("group", "list", "-q", "--all").out.split() == ["release"]


def test_a_group_without_a_name_prints_its_label(line: Line) -> None:
    name = line("group", "create", "--max-parallel", "1").out.strip()
    jobs = [added(line, "-g", name, "--", *WAITS) for _ in range(2)]
    assert states(line, *jobs) == ["RUNNING", "QUEUED"]
    result = line("group", "cancel", name)
    assert result.err == f"semantica: 2 jobs of group {name} cancelled\n"
    assert states(line, *jobs) == ["CANCELLED", "CANCELLED"]


def test_what_a_group_cannot_be_is_refused(line: Line, daemon: Process) -> None:
    for words in (("show", "nobody"), ("cancel", "nobody"), ("wait", "nobody")):
        result = line("group", *words)
        assert (result.code, "there is no group nobody" in result.err) == (65, True), words
    line("group", "create", "one", "--max-parallel", "2")
    assert "group one exists with another policy" in line("group", "create", "one", "--max-parallel", "3").err
    assert line("group", "create", "two", "--sequential", "--max-parallel", "2").code == 64
    assert {one["chain_group_id"] for one in daemon.call("group.list")["groups"]} >= {"one"}
