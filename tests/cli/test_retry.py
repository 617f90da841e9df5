"""`semantica retry`, and `--force` of run and add: an ended job runs once more."""

from pathlib import Path

from tests.cli.command_line import Line


def test_retry_runs_an_ended_job_again_in_its_folder(line: Line, tmp_path: Path) -> None:
    script = "echo ran >> log; test -e fixed"
    assert line("run", "--", "sh", "-c", script).code == 1
    first = line("show", "@last", "--json").json["job_id"]
    (tmp_path / "fixed").touch()
    again = line("retry", "@last")
    job_id = again.out.strip()
    assert again == (0, f"{job_id}\n", f"semantica: job {job_id[:8]} repeats {first[:8]}\n")
    assert line("wait", "@last").code == 0
    assert (tmp_path / "log").read_text() == "ran\nran\n"
    assert f"retry of     {first}" in line("show", job_id).out
    assert f"retried by   {job_id}, which is DONE" in line("show", first).out


def test_retry_of_an_older_version_needs_force(line: Line, tmp_path: Path) -> None:
    add = ("add", "-q", "--subject", "s", "--type", "t", "--generation")
    old = line(*add, "1", "--", "false").out.strip()
    line("wait", old)
    newest = line(*add, "2", "--", "true").out.strip()
    refused = line("retry", old)
    assert refused.code == 65
    assert newest in refused.err
    assert "--force" in refused.err
    forced = line("retry", old, "--force", "-q").out.strip()
    assert line("wait", forced).code == 1
    assert line("show", forced, "--json").json["stale"] is True


def test_retry_of_a_job_that_runs_is_refused_with_what_to_do(line: Line) -> None:
    job_id = line("add", "-q", "--", "sleep", "60").out.strip()
    refused = line("retry", job_id)
    assert refused.code == 65
    assert f"semantica cancel {job_id}" in refused.err


def test_force_runs_the_same_version_of_a_file_again(line: Line, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    words = ("--newest-wins", "f", "--", "sh", "-c", "echo ran >> log; exit $(wc -l < log)")
    assert line("run", *words).code == 1
    known = line("run", *words)
    assert known.code == 1
    assert "it is FAILED; --force runs it again" in known.err
    assert line("run", "--force", *words).code == 2
    added = line("add", "-q", "--force", *words)
    assert line("wait", added.out.strip()).code == 3


def test_force_runs_an_older_version_too(line: Line) -> None:
    words = ("run", "--type", "older", "-s", "older", "--generation")
    for generation in ("1", "2"):
        assert line(*words, generation, "--", "false").code == 1
    forced = line(*words, "1", "--force", "--", "echo", "ran")
    assert (forced.code, forced.out, forced.err) == (0, "ran\n", "")
    assert line("show", "@last", "--json").json["stale"] is True


def test_after_a_cancel_the_hint_names_force(line: Line, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    words = ("--newest-wins", "f", "--", "true")
    line("add", "--after", "1h", *words)
    assert "semantica retry" in line("cancel", "@last").err
    assert "it is CANCELLED; --force runs it again" in line("add", *words).err
    assert line("run", "--force", *words).code == 0
