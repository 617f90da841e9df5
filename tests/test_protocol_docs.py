"""docs/protocol.md is what `scripts/protocol-docs` makes of the table of methods, and a stale page is noticed."""

import shutil
import subprocess
import sys
from pathlib import Path

from semantica_daemon.wire.methods import METHODS

ROOT = Path(__file__).resolve().parent.parent


def check(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/protocol_docs.py", "--check"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def test_the_page_is_up_to_date() -> None:
    found = check(ROOT)
    assert found.returncode == 0, found.stderr


def test_a_page_that_differs_from_the_table_is_refused(tmp_path: Path) -> None:
    for folder in ("scripts", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    page = tmp_path / "docs" / "protocol.md"
    page.write_text(page.read_text().replace("### job.plan", "### job.plans"))
    found = check(tmp_path)
    assert (found.returncode, found.stderr) == (1, "docs/protocol.md is out of date: run scripts/protocol-docs\n")


def test_every_method_has_its_section() -> None:
    headings = {line.removeprefix("### ") for line in (ROOT / "docs" / "protocol.md").read_text().splitlines()}
    assert {method.name for method in METHODS} <= headings
