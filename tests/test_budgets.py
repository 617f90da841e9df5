"""What a job costs stays within the recorded budget (scripts/benchmarks/budgets.json): pages and statements of a commit
on every machine, instructions in the store where valgrind is installed and these versions have a budget."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def bench(group: str) -> str:
    """The table that scripts/bench prints; fails when a figure is over its budget."""
    command = [sys.executable, str(ROOT / "scripts" / "bench.py"), "--instructions", "--only", group]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    if "NOT TESTED" in ended.stdout + ended.stderr:
        pytest.skip(f"NOT TESTED: instructions a job.\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def test_a_commit_of_one_job_writes_no_more_pages_and_statements_than_recorded() -> None:
    assert "frames-finish" in bench("commits")


@pytest.mark.timeout(300)
def test_enqueue_claim_and_finish_execute_no_more_instructions_than_recorded() -> None:
    assert "store-run" in bench("guard")
