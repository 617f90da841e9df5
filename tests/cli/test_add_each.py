"""`semantica add --each`: one job for each line of stdin, in one call for a thousand of them."""

import subprocess

from semantica_daemon.client.exit_codes import DATA, USAGE
from tests.cases import each_case
from tests.cli.command_line import COMMAND, Line
from tests.harness import Process


def test_each_line_becomes_a_job_and_the_ids_come_in_their_order(line: Line, daemon: Process) -> None:
    lines = "a b.py\n\n  'c' $HOME {}\nlast"
    result = line("add", "--each", "-t", "each", "--", "echo", "-n", "<{}>", "{}{}", stdin=lines)
    assert (result.code, result.err) == (0, "semantica: added 3 jobs\n")
    jobs = [daemon.call("job.get", job_id=job_id) for job_id in result.out.split()]
    texts = ["a b.py", "  'c' $HOME {}", "last"]
    assert [job["payload"]["argv"] for job in jobs] == [["echo", "-n", f"<{text}>", text + text] for text in texts]
    assert {(job["user_tag"], job["job_type"]) for job in jobs} == {("each", "echo")}


def test_the_subject_and_the_key_may_hold_the_line_too(line: Line, daemon: Process) -> None:
    words = ["add", "--each", "--after", "1h", "-s", "file {}", "-k", "once {}", "--", "lint", "{}"]
    first = line(*words, stdin="a\nb\n").out.split()
    jobs = [daemon.call("job.get", job_id=job_id) for job_id in first]
    assert [(job["subject_key"], job["job_type"]) for job in jobs] == [("file a", "lint a"), ("file b", "lint b")]
    again = line(*words, stdin="b\nc\n")
    assert again.out.split()[0] == first[1]
    assert again.err == "semantica: added 1 job; 1 was added before\n"


def test_more_lines_than_one_call_takes_are_all_added(line: Line, daemon: Process) -> None:
    daemon.call("queue.configure", queue="many", slots=0)
    result = line("add", "--each", "-q", "-Q", "many", "--", "true", "{}", stdin="\n".join(map(str, range(2345))))
    assert (result.code, result.err) == (0, "")
    assert len(set(result.out.split())) == 2345
    queues = {queue["queue"]: queue["queued"] for queue in daemon.call("queue.list")["queues"]}
    assert queues["many"] == 2345
    daemon.call("job.cancel", queue="many")


def test_lines_whose_jobs_are_larger_than_a_call_are_split(line: Line, daemon: Process) -> None:
    """Commands of 1.2 MB: not twenty of them fit into a call."""
    daemon.call("queue.configure", queue="wide", slots=0)
    wide = ["x" * 100_000] * 12
    result = line("add", "--each", "-Q", "wide", "--", "true", "{}", *wide, stdin="\n".join("abcdefghijklmnopqrst"))
    assert (result.code, result.err) == (0, "semantica: added 20 jobs\n")
    daemon.call("job.cancel", queue="wide")


def test_json_is_the_list_of_acks(line: Line) -> None:
    acks = line("add", "--each", "--json", "--", "true", "{}", stdin="a\nb\n").json["jobs"]
    assert [set(ack) >= {"job_id", "state"} for ack in acks] == [True, True]


def test_no_lines_are_no_jobs(line: Line) -> None:
    result = line("add", "--each", "--", "true", "{}", stdin="\n\n")
    assert (result.code, result.out, result.err) == (0, "", "semantica: stdin has no lines: no job was added\n")


@each_case(
    ("words", "complaint"),
    [
        (["--", "true"], "no {}"),
        (["--stdin", "--", "cat", "{}"], "--stdin"),
        (["--every", "1h", "--", "true", "{}"], "--every"),
        (["--type", "semantica.noop"], "no {}"),
    ],
)
def test_what_cannot_be_done_for_each_line_is_refused(line: Line, words: list[str], complaint: str) -> None:
    result = line("add", "--each", *words, stdin="a\n")
    assert (result.code, result.out) == (USAGE, "")
    assert complaint in result.err


def test_a_refused_chunk_says_how_many_were_added_before(line: Line, daemon: Process) -> None:
    """The queue takes 1,500 jobs: the first thousand are added, the second refused as a whole."""
    daemon.call("queue.configure", queue="short", slots=0, max_queued=1500)
    result = line("add", "--each", "-q", "-Q", "short", "--", "true", "{}", stdin="\n".join(map(str, range(2000))))
    assert result.code not in (0, USAGE, DATA)
    assert len(result.out.split()) == 1000
    assert "added 1000 jobs; 1000 lines are left" in result.err
    daemon.call("job.cancel", queue="short")


def test_the_ids_of_a_call_are_printed_when_it_has_ended(line: Line, daemon: Process) -> None:
    """Thirty calls; the command is killed when it has printed the first id."""
    daemon.call("queue.configure", queue="slow", slots=0)
    (line.cwd / "lines").write_text("\n".join(map(str, range(30_000))))
    with (line.cwd / "lines").open() as lines:
        words = [*COMMAND, "add", "--each", "-Q", "slow", "--", "true", "{}"]
        process = subprocess.Popen(words, stdin=lines, stdout=subprocess.PIPE, env=line.env, cwd=line.cwd)
    assert process.stdout is not None
    with process.stdout:
        first = process.stdout.readline().decode().strip()
        process.kill()
        process.wait()
    assert daemon.call("job.get", job_id=first)["payload"]["argv"] == ["true", "0"]
    queues = {queue["queue"]: queue["queued"] for queue in daemon.call("queue.list")["queues"]}
    assert queues["slow"] < 30_000
    daemon.call("job.cancel", queue="slow")


def test_the_value_of_a_variable_may_hold_the_line_too(line: Line, daemon: Process) -> None:
    words = ["add", "--each", "-q", "--env", "FILE=<{}>", "--", "echo", "{}"]
    jobs = [daemon.call("job.get", job_id=job_id) for job_id in line(*words, stdin="a\nb\n").out.split()]
    assert [job["env_vars"] for job in jobs] == [{"FILE": "<a>"}, {"FILE": "<b>"}]
