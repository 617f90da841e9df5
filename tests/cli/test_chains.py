"""Chains on the command line: --needs, --on-event job:ID, and how show, why, graph and wait speak of them."""

import json
import shutil
import subprocess

import pytest

from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process


def held(line: Line) -> str:
    """The id of a job that does not start by itself."""
    return line("add", "-q", "--after", "1h", "--", "true").out.strip()


def test_a_job_starts_when_those_that_it_needs_are_done_and_sees_their_results(line: Line) -> None:
    build = line("add", "--", "sh", "-c", "echo '{\"n\": 1}' > $SEMANTICA_RESULT").out.strip()
    test = line("run", "--needs", "@last", "--", "sh", "-c", "echo $SEMANTICA_PARENT_RESULT")
    assert (test.code, test.out) == (0, '{"n":1}\n')
    both = line("run", "--needs", f"{build[:8]},@last", "--", "sh", "-c", "echo $SEMANTICA_PARENT_RESULT")
    assert json.loads(both.out)[build] == {"n": 1}


def test_a_note_names_the_jobs_that_it_waits_for(line: Line, daemon: Process) -> None:
    first, second = held(line), held(line)
    added = line("add", "--needs", first, "--needs", f"{second} {first}", "--", "true")
    child = daemon.call("job.get", job_id=added.out.strip())
    assert child["parents"] == [first, second]
    assert added.err.endswith(f"starts when job {first[:8]} is DONE and job {second[:8]} is DONE\n")
    many = [held(line) for _ in range(3)]
    added = line("add", "--needs", ",".join([first, second, *many]), "--", "true")
    assert added.err.endswith(f"job {many[0][:8]} is DONE and 2 more jobs have ended\n")
    plan = line("plan", "--needs", first, "--", "true")
    assert f"when job {first[:8]} is DONE" in plan.out
    line("cancel", first, second, *many)


def test_show_and_why_name_the_parents_with_their_states(line: Line) -> None:
    parent = held(line)
    child = line("add", "-q", "--needs", parent, "--", "true").out.strip()
    assert f"needs        job {parent}, which is SCHEDULED\n" in line("show", child).out
    assert f"waiting: job {parent[:8]}, which it needs, has not started yet\n" in line("why", child).out
    line("cancel", parent)
    waited = line("wait", child)
    assert (waited.code, f"`semantica why {child[:8]}`" in waited.err) == (1, True)
    assert f"cancelled: it needed job {parent[:8]}, which ended as CANCELLED\n" in line("why", child).out


def test_a_job_can_wait_for_the_end_of_another_like_for_an_event(line: Line, daemon: Process) -> None:
    other = held(line)
    any_end = line("add", "--on-event", "job:@last", "--", "true")
    assert f"starts when job {other[:8]} has ended\n" in any_end.err
    failed = line("add", "--on-event", f"job:{other[:8]}=cancelled", "--", "true")
    assert f"starts when job {other[:8]} has ended as CANCELLED\n" in failed.err
    assert f"needs        the end of job {other} (not yet)\n" in line("show", any_end.out.strip()).out
    assert f"needs        the end of job {other} as CANCELLED (not yet)\n" in line("show", failed.out.strip()).out
    line("cancel", other)
    assert line("wait", any_end.out.strip(), failed.out.strip()).code == 0


@each_case(
    ("words", "code", "sentence"),
    [
        (["--needs", "deadbeef"], 65, "semantica: --needs: no job deadbeef\n  `semantica list` shows the jobs\n"),
        (["--needs", "zzzz"], 64, "semantica: add: --needs: 'zzzz' is not a job id"),
        (["--needs", ","], 64, "semantica: add: --needs: it is empty"),
        (["--on-event", "job:deadbeef"], 65, "semantica: --on-event: no job deadbeef\n"),
        (["--on-event", "job:deadbeef=failed"], 65, "semantica: --on-event: no job deadbeef\n"),
        (["--on-event", "job:zzzz"], 64, "semantica: add: --on-event: 'zzzz' is not a job id"),
        (
            ["--on-event", "job:deadbeef=lost"],
            64,
            "semantica: --on-event: a job does not end as LOST\n  give one of DONE",
        ),
        (["--on-event", "job:deadbeef", "--on-event", "job:deadbeee"], 64, "--needs waits for several jobs"),
        (["--every", "5m", "--needs", "deadbeef"], 64, "semantica: --every: --needs is for one job"),
    ],
)
def test_what_cannot_be_waited_for_is_refused_in_words_of_the_shell(
    line: Line, words: list[str], code: int, sentence: str
) -> None:
    result = line("add", *words, "--", "true")
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err


def test_a_parent_that_has_failed_is_refused_with_what_to_do(line: Line) -> None:
    parent = line("add", "--", "false").out.strip()
    line("wait", parent)
    result = line("add", "--needs", parent[:8], "--", "true")
    assert result.code == 65
    assert f"--needs: job {parent} ended as FAILED" in result.err
    assert f"`semantica retry {parent}` runs that job once more" in result.err


def test_every_job_of_a_list_of_lines_can_need_the_same_job(line: Line, daemon: Process) -> None:
    parent = held(line)
    added = line("add", "--each", "--needs", "@last", "--", "echo", "{}", stdin="a\nb\n").out.split()
    assert [daemon.call("job.get", job_id=one)["parents"] for one in added] == [[parent]] * 2
    line("cancel", parent)


def test_a_graph_is_drawn_of_a_job_of_a_group_and_of_all_live_chains(line: Line) -> None:
    build = line("add", "-q", "--after", "1h", "-g", "release", "--", "make", "build").out.strip()
    test = line("add", "-q", "--needs", build, "-g", "release", "--", "make", "test").out.strip()
    lint = line("add", "-q", "--needs", build, "-g", "release", "--", "make", "lint").out.strip()
    deploy = line("add", "-q", "--needs", f"{test},{lint}", "--", "./deploy").out.strip()
    tree = f"""\
● {build[:8]}    SCHEDULED    make build
├─● {test[:8]}  SCHEDULED    make test
└─● {lint[:8]}  SCHEDULED    make lint
  ↓ {deploy[:8]}  SCHEDULED    ./deploy  (also needs {test[:8]})
"""
    utf8 = {"LC_ALL": "C.UTF-8"}
    assert line("graph", **utf8).out == tree
    assert line("graph", build[:8], **utf8).out == tree
    assert line("graph", "release", **utf8).out == "".join(tree.splitlines(keepends=True)[:3])
    assert line("graph", "-g", "release", "-q").out.split() == [build, test, lint]
    plain = line("graph", "@last", LC_ALL="C").out
    assert plain.isascii()
    assert f"  v {deploy[:8]}" in plain
    on_terminal = line.on_terminal("graph", **utf8).out
    assert "\x1b[34mSCHEDULED\x1b[0m" in on_terminal
    assert "\x1b" not in line.on_terminal("graph", NO_COLOR="1", **utf8).out
    found = line("graph", "release", "--json").json
    assert [node["job_id"] for node in found["nodes"]] == [build, test, lint]
    assert {"parent_id": build, "job_id": test} in found["edges"]
    cut = line("graph", "release", "-n", "2")
    assert "there are more jobs than these 2: --limit 1000 shows more" in cut.err
    line("cancel", build)
    empty = line("graph")
    assert (empty.code, empty.out, "`semantica add --needs ID" in empty.err) == (0, "", True)
    assert line("graph", deploy, **utf8).out.count("CANCELLED") == 4


@each_case(
    ("words", "code", "sentence"),
    [
        (["nothing"], 65, "there is no job and no group nothing"),
        (["deadbeef"], 65, "there is no job and no group deadbeef"),
        (["-g", "nothing"], 65, "there is no group nothing"),
        (["deadbeef", "-g", "nothing"], 64, "give only one of them"),
        (["--dot", "--json"], 64, "give only one of them"),
        (["-n", "1001"], 64, "at most 1000 jobs are drawn"),
        (["-n", "0"], 64, "--limit"),
    ],
)
def test_what_cannot_be_drawn(line: Line, words: list[str], code: int, sentence: str) -> None:
    result = line("graph", *words)
    assert (result.code, sentence in result.err, result.out) == (code, True, "")


@pytest.mark.skipif(shutil.which("dot") is None, reason="NOT TESTED: Graphviz is not installed")
def test_graphviz_reads_the_document(line: Line) -> None:
    parent = held(line)
    line("add", "--needs", parent, "--", "sh", "-c", 'echo "a\\b"')
    text = line("graph", parent, "--dot").out
    svg = subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True, check=True).stdout
    assert svg.count(b'class="node"') == 2
    line("cancel", parent)
