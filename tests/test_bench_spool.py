"""`scripts/bench --only spool` measures the tools that are installed, and names those that are not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_a_tool_that_is_missing_is_left_out_with_a_word(tmp_path: Path) -> None:
    for tool in ("sh", "seq", "xargs"):
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    bench = [sys.executable, str(ROOT / "scripts" / "bench.py")]
    command = [*bench, "--only", "spool", "--quick", "--repeats", "1", "--json"]
    env = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    for tool, package in (("tsp", "task-spooler"), ("nq", "nq")):
        assert f"spool: {tool} is left out, because it is not installed (apt install {package})" in done.stderr
    measured = {result["name"]: result["measured"] for result in json.loads(done.stdout)["results"]}
    assert measured.keys() == {"spool-xargs", "spool-each"}
    assert all(value > 0 for value in measured.values())
