"""`semantica archive`: the folders of ended jobs are gone, what is known of them stays."""

from tests.cli.command_line import Line
from tests.harness import Process
from tests.supervisor.families import until


def test_the_folder_is_deleted_and_the_rest_is_known(line: Line, daemon: Process) -> None:
    line("run", "-q", "--", "sh", "-c", "echo out; echo x > $SEMANTICA_OUTPUT/x; exit 3")
    job_id = line("show", "-q", "@last").out.strip()
    folder = daemon.home / "workspaces" / job_id
    assert folder.exists()
    assert line("archive", "@last", "--dry-run") == (0, f"{job_id}\n", "semantica: 1 job would be archived\n")
    assert folder.exists()
    result = line("archive", "@last")
    assert result == (0, f"{job_id}\n", f"semantica: job {job_id[:8]} is archived: its files are deleted\n")
    until(lambda: not folder.exists())
    logs = line("logs", "@last")
    assert (logs.code, logs.out) == (65, "")
    assert "is archived: its output is deleted" in logs.err
    assert f"`semantica show {job_id}`" in logs.err
    job = line("show", "--json", "@last").json
    assert (job["state"], job["exit_code"], job["log_path"], job["runs"][0]["log_path"]) == ("FAILED", 3, None, None)
    assert "its files are deleted" in line("show", "@last").out
    assert "archived" in line("why", "@last").out
    assert line("archive", "@last").err.endswith("it has not ended, or is archived already\n")


def test_archived_jobs_are_listed_only_when_asked_for(line: Line) -> None:
    line("run", "-q", "-t", "mine", "--", "true")
    job_id = line("show", "-q", "@last").out.strip()
    assert line("archive", "--tag", "mine").out == f"{job_id}\n"
    assert line("list", "-q", "-t", "mine").out == ""
    assert line("list", "-q", "-t", "mine", "--archived").out == f"{job_id}\n"
    assert job_id not in [job["job_id"] for job in line("status", "--json").json["ended"]]
    assert line("archive", "--tag", "mine").err == "semantica: no ended job has tag mine\n"


def test_an_archived_job_is_retried(line: Line) -> None:
    line("run", "-q", "--", "true")
    line("archive", "-q", "@last")
    line("retry", "-q", "@last")
    assert line("wait", "@last").code == 0
    assert line("logs", "@last").code == 0
