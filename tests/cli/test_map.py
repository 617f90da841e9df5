"""`semantica map`: one job for each item, the output and the exit code of GNU parallel."""

import pytest

from semantica_daemon.client.client import Client
from semantica_daemon.client.exit_codes import BROKEN_PIPE, DATA, TEMPORARY, USAGE
from semantica_daemon.paths import find
from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process

EXIT = ["--", "sh", "-c", "exit $1", "sh"]


def test_each_item_is_a_job_with_its_own_command(line: Line, daemon: Process) -> None:
    result = line("map", "--name", "own", "-k", "--", "echo", "<{}>", "{#}", ":::", "a b", "$HOME", "c")
    assert (result.code, result.out) == (0, "<a b> 1\n<$HOME> 2\n<c> 3\n")
    assert result.err.startswith("semantica: map own: 3 done, in ")
    jobs = daemon.call("job.list", subject_key="$HOME")["items"]
    assert [(job["state"], job["job_type"], job["generation"]) for job in jobs] == [("DONE", "echo", 2)]


def test_items_come_from_stdin_one_in_each_line(line: Line) -> None:
    result = line("map", "-k", "--", "echo", "x", stdin="a b\n\n  c\nlast")
    assert (result.code, result.out) == (0, "x a b\nx   c\nx last\n")


def test_items_may_end_with_nul_bytes(line: Line) -> None:
    result = line("map", "-0", "-k", "--", "printf", "<%s>", stdin="a\nb\0c\0\0d")
    assert (result.code, result.out) == (0, "<a\nb><c><d>")


def test_items_may_come_from_a_file(line: Line) -> None:
    (line.cwd / "items").write_text("one\ntwo\n")
    assert line("map", "-a", "items", "-k", "--", "echo").out == "one\ntwo\n"


def test_an_item_that_is_given_twice_is_run_once(line: Line) -> None:
    result = line("map", "-k", "--", "echo", ":::", "a", "b", "a", "a")
    assert (result.code, result.out) == (0, "a\nb\n")
    assert "2 done, 2 given more than once" in result.err
    assert line("map", "-k", "--duplicates", "--", "echo", ":::", "a", "b", "a").out == "a\nb\na\n"


@each_case(("codes", "code"), [("0 0", 0), ("0 1 2 0 3", 3), (" ".join(map(str, range(1, 120))), 101)])
def test_the_exit_code_is_the_number_of_items_that_failed(line: Line, codes: str, code: int) -> None:
    assert line("map", "--duplicates", *EXIT, stdin="\n".join(codes.split())).code == code


def test_a_failed_item_is_run_again_up_to_a_limit(line: Line) -> None:
    script = 'echo run >> "$1"; test $(wc -l < "$1") -ge $2 && echo good'
    words = ["map", "--retries", "3", "--backoff", "10ms", "--", "sh", "-c", script, "sh", "{}"]
    result = line(*words, "2", ":::", "second")
    assert (result.code, result.out) == (0, "good\n")
    assert line(*words, "9", ":::", "never").code == 1
    assert [(line.cwd / name).read_text().count("run") for name in ("second", "never")] == [2, 3]


def test_output_is_grouped_and_goes_to_the_stream_it_was_written_to(line: Line) -> None:
    script = "echo $1 out; echo $1 err >&2; printf $1"
    result = line("map", "-q", "-k", "--", "sh", "-c", script, "sh", ":::", "a", "b")
    assert (result.out, result.err) == ("a out\nab out\nb", "a err\nb err\n")


def test_tag_begins_each_line_with_the_item(line: Line) -> None:
    script = "echo 1; echo; echo 2 >&2; printf 3"
    result = line("map", "-q", "-k", "--tag", "--", "sh", "-c", script, "{}", ":::", "a", "b c")
    assert (result.out, result.err) == ("a\t1\na\t\na\t3b c\t1\nb c\t\nb c\t3", "a\t2\nb c\t2\n")


def test_output_of_many_megabytes_is_whole(line: Line) -> None:
    """Longer than several replies, in the order of the items."""
    result = line("map", "-k", "--", "sh", "-c", "yes $1 | head -c 3000000", "sh", ":::", "a", "b", "c")
    assert result.out == "".join(f"{item}\n" * 1_500_000 for item in "abc")


def test_results_are_written_as_gnu_parallel_does(line: Line) -> None:
    line("map", "--results", "out", "--", "sh", "-c", "echo $1; echo e$1 >&2", "sh", ":::", "a/b", "c\\d", "..")
    names = {"a\\_b": "a/b", "c\\\\d": "c\\d", "\\..": ".."}
    for number, (name, item) in enumerate(names.items(), 1):
        texts = [(line.cwd / "out" / "1" / name / file).read_text() for file in ("stdout", "stderr", "seq")]
        assert texts == [f"{item}\n", f"e{item}\n", str(number)]


def test_a_dry_run_prints_the_commands_and_needs_no_daemon(line: Line) -> None:
    words = ["map", "--no-autostart", "--dry-run", "--", "mv", "{}", "{.}.old", ":::", "a b.txt", "c.d"]
    result = line(*words, SEMANTICA_HOME="/nowhere")
    assert result == (0, "mv 'a b.txt' 'a b.old'\nmv c.d c.old\n", "")


def test_json_is_one_line_for_each_item(line: Line) -> None:
    result = line("map", "-k", "--json", *EXIT, ":::", "0", "7")
    assert [(job["number"], job["item"], job["state"], job["exit_code"]) for job in result.lines] == [
        (1, "0", "DONE", 0),
        (2, "7", "FAILED", 7),
    ]


def test_jobs_limits_how_many_run_at_once(line: Line, daemon: Process) -> None:
    script = "mkdir busy && echo alone && rmdir busy"
    result = line("map", "-j", "1", "--", "sh", "-c", script, ":::", *map(str, range(8)))
    assert (result.code, result.out) == (0, "alone\n" * 8)


@each_case(
    ("halt", "codes", "code"),
    [
        ("soon,fail=1", "0 7 0 0 0 0 0 0", 7),
        ("now,fail=2", "3 0 4 0 0 0 0 0", 2),
        ("now,success=1", "5 0 6 6 6 6", 0),
        ("soon,fail=50%", "1 2 0 0", 50),
        ("never", "1 0 1", 2),
    ],
)
def test_halt_ends_the_map(line: Line, halt: str, codes: str, code: int) -> None:
    result = line("map", "-j", "1", "--duplicates", "--halt", halt, *EXIT, stdin="\n".join(codes.split()))
    assert result.code == code, result.err


@pytest.mark.parametrize(
    ("halt", "ran"), [("soon,success=1", "5 0"), ("soon,done=3", "5 0 6"), ("soon,fail=2", "5 0 6")]
)
def test_halt_soon_starts_no_item_after_the_one_that_it_was_due_at(line: Line, halt: str, ran: str) -> None:
    record = ["--", "sh", "-c", "echo $1 >> ran; exit $1", "sh"]
    line("map", "-j", "1", "--halt", halt, *record, stdin="5\n0\n6\n7\n8\n")
    assert (line.cwd / "ran").read_text().split() == ran.split()


def test_halt_now_ends_running_jobs_and_soon_lets_them_finish(line: Line) -> None:
    script = """case $1 in
        bad) until test -e began; do sleep 0.02; done; exit 3;;
        long) touch began; sleep $2; echo whole;;
    esac"""
    for when, seconds, out in (("soon", "0.5", "whole\n"), ("now", "60", "")):
        (line.cwd / "began").unlink(missing_ok=True)
        words = ["map", "--halt", f"{when},fail=1", "--", "sh", "-c", script, "sh", "{}", seconds]
        result = line(*words, ":::", "long", "bad", *map(str, range(2000)))
        assert (result.code, result.out) == (3, out)
        assert "cancelled" in result.err


@each_case(
    ("words", "stdin", "code", "complaint"),
    [
        (["--", "echo", ":::", "a", ":::", "b"], "", USAGE, "::: is given twice"),
        (["--halt", "later", "--", "echo"], "", USAGE, "soon,fail=1"),
        ([], "", USAGE, "no command"),
        ([":::", "a"], "", USAGE, "no command"),
        (["--retries", "0", "--", "echo"], "", USAGE, "greater than 0"),
        (["--name", "a/b", "--", "echo"], "", USAGE, "is not a name"),
        (["--jobs", "many", "--", "echo"], "", USAGE, "50%"),
        (["-a", "missing", "--", "echo"], "", DATA, "No such file"),
        (["--resume", "nothing"], "", DATA, "there is no map nothing to resume"),
        (["--", "echo"], "a\0b\0", DATA, "with -0 items end with a NUL byte"),
        (["--", "echo"], b"a\n\xff\n", DATA, "item 2 is not UTF-8"),
        (["-C", "missing", "--", "echo", ":::", "a"], "", DATA, "no such folder"),
    ],
)
def test_what_cannot_be_mapped_is_refused(
    line: Line, words: list[str], stdin: str | bytes, code: int, complaint: str
) -> None:
    result = line("map", *words, stdin=stdin)
    assert (result.code, result.out) == (code, "")
    assert complaint in result.err


def test_no_items_are_no_jobs(line: Line) -> None:
    result = line("map", "--", "echo", stdin="\n\n")
    assert (result.code, result.out) == (0, "")
    assert "no items" in result.err


def test_a_map_is_not_begun_again_while_it_runs(line: Line, daemon: Process) -> None:
    daemon.call("queue.pause", queue="later")
    begun = line.start("map", "--name", "twice", "-Q", "later", "--", "echo", "{}", ":::", "a")
    with Client(find({"SEMANTICA_HOME": str(daemon.home)})) as client:
        next(client.subscribe(since=0, queue="later", event_types=["job.queued"]))
    result = line("map", "--name", "twice", "-Q", "later", "--", "echo", "{}", ":::", "a")
    assert (result.code, "`semantica map --resume twice`" in result.err) == (TEMPORARY, True)
    daemon.call("queue.resume", queue="later")
    assert begun.result().out == "a\n"
    assert line("map", "--name", "twice", "--", "echo", ":::", "a").out == "a\n"


@pytest.mark.parametrize("count", [3000])
def test_thousands_of_items_are_added_in_several_calls(line: Line, count: int) -> None:
    result = line("map", "-k", "--", "echo", stdin="".join(f"{number}\n" for number in range(count)))
    assert result.out == "".join(f"{number}\n" for number in range(count))


WAITS = 'test $1 != wait || until test -e go; do sleep 0.02; done; echo "<$1>"'


def test_a_terminal_shows_a_bar_below_the_output(line: Line) -> None:
    begun = line.start_on_terminal("map", "--", "sh", "-c", WAITS, "sh", ":::", "a", "wait", "b")
    shown = begun.until(" 66%  2/3")
    assert "<a>\n" in shown
    (line.cwd / "go").touch()
    result = begun.result()
    assert result.code == 0
    assert result.out.endswith("done, in " + result.out.rpartition("done, in ")[2])
    assert "\r\x1b[K<wait>\n" in result.out


def test_there_is_no_bar_off_a_terminal_or_when_it_is_not_wanted(line: Line) -> None:
    words = ["--", "sh", "-c", WAITS, "sh", ":::", "a"]
    assert line("map", *words).err.count("\n") == 1
    assert "━" not in line.on_terminal("map", "--no-bar", *words).out
    assert line.on_terminal("map", "-q", *words).out == "<a>\n"


def test_a_bar_is_drawn_off_a_terminal_on_request(line: Line) -> None:
    assert "╌" in line("map", "--bar", "--", "echo", ":::", "a", "b").err, "it is drawn before the first item has ended"


def test_the_jobs_are_cancelled_when_nobody_reads_the_output(line: Line, daemon: Process) -> None:
    items = map(str, range(1, 500))
    begun = line.start("map", "--name", "unread", "-j", "1", "--", "seq", "{}", "100000", ":::", *items)
    assert begun.process.stdout is not None
    begun.process.stdout.close()
    assert begun.process.wait(40) == BROKEN_PIPE
    jobs = daemon.call("job.list", job_type=["seq"], limit=200)["items"]
    assert {job["state"] for job in jobs} >= {"CANCELLED"}
    assert begun.process.stderr is not None
    begun.process.stderr.close()


def test_a_full_queue_takes_the_items_as_it_empties(line: Line, daemon: Process) -> None:
    daemon.call("queue.configure", queue="small", slots=2, max_queued=20)
    items = list(map(str, range(70)))
    result = line("map", "-Q", "small", "-k", "--", "echo", ":::", *items)
    assert (result.code, result.out.split()) == (0, items)


def test_environment_and_folder_go_along(line: Line) -> None:
    (line.cwd / "sub").mkdir()
    words = ["map", "-C", "sub", "-e", "SIZE=5", "--", "sh", "-c", 'echo $1 $SIZE $COLOUR "$(basename $PWD)"', "sh"]
    assert line(*words, ":::", "a", COLOUR="green").out == "a 5 green sub\n"


def test_items_wait_behind_other_jobs(line: Line, daemon: Process) -> None:
    """A map of thousands does not hold up what is added later, unless it is told to."""
    line("map", "--", "true", ":::", "usual one")
    line("map", "-p", "high", "--", "true", ":::", "high one")
    jobs = [daemon.call("job.list", subject_key=item)["items"][0] for item in ("usual one", "high one")]
    assert [job["priority"] for job in jobs] == [-10, 10]
