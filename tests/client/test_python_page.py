"""Every example of docs/python.md runs as it is shown, in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.harness import PATIENCE_S, Process

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)


def printed(daemon: Process, example: str, folder: Path) -> list[str]:
    env = {**os.environ, "SEMANTICA_HOME": str(daemon.home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_first_example_has_twenty_lines_and_runs(daemon: Process, tmp_path: Path) -> None:
    assert len(EXAMPLES[0].splitlines()) <= 20
    assert printed(daemon, EXAMPLES[0], tmp_path) == [
        "FAILED 3", "job.queued", "job.started", "job.done", "stdout done", "CANCELLED",
        "no job ffffffff E_JOB_NOT_FOUND",
    ]  # fmt: skip


def test_the_async_example_runs(daemon: Process, tmp_path: Path) -> None:
    assert sorted(printed(daemon, EXAMPLES[1], tmp_path)) == ["a.py DONE", "b.py DONE"]


def test_the_client_of_the_commands_imports_neither_typing_nor_anyio(daemon: Process, tmp_path: Path) -> None:
    slow = "{'typing', 'anyio', 'msgspec'}"
    example = f"import sys, semantica_daemon.client; print([name for name in {slow} if name in sys.modules])"
    assert printed(daemon, example, tmp_path) == ["[]"]
