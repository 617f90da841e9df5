"""The daemon as an editor sees it: node with vscode-jsonrpc, the library that VS Code and its servers talk with.

Without node, or when npm cannot install the one package, this is skipped.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Process
from tests.npm import node_modules

PACKAGE = "vscode-jsonrpc@8.2.1"
TALK = Path(__file__).with_name("talk.cjs")


@pytest.fixture(scope="session")
def modules(pytestconfig: pytest.Config) -> Path:
    return node_modules(pytestconfig, PACKAGE)


def talk(process: Process, modules: Path) -> dict[str, Any]:
    command = ["node", str(TALK), str(process.socket), str(modules)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_vscode_jsonrpc_greets_enqueues_follows_cancels_and_leaves(home: Path, modules: Path) -> None:
    with Process(home).start() as process:
        seen = talk(process, modules)
        assert seen["hello"]["capabilities"] == {}
        assert seen["waited"]["finished"]
        assert (seen["sameText"], seen["sameLarge"], seen["plans"]) == (True, True, 50)
        assert [event["event_type"] for event in seen["events"]] == ["job.queued", "job.started", "job.done"]
        assert {event["job_id"] for event in seen["events"]} == {seen["ack"]["job_id"]}
        assert seen["events"][0]["sequence"] == seen["subscribed"]["sequence"] + 1
        assert seen["health"] == ["ready"] * 5
        assert (seen["failed"]["code"], seen["failed"]["data"]["code"]) == (4001, "E_JOB_NOT_FOUND")
        assert seen["failed"]["data"]["hint"]
        assert (seen["cancelled"], seen["still"]) == (-32800, "SCHEDULED")
        assert (seen["shutdown"], seen["closed"]) == (None, True)
        assert process.call("admin.health")["status"] == "ready"


def test_two_editors_at_once_do_not_disturb_each_other(home: Path, modules: Path) -> None:
    with Process(home).start() as process:
        command = ["node", str(TALK), str(process.socket), str(modules)]
        editors = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        for editor in editors:
            out, _ = editor.communicate(timeout=40)
            assert (editor.returncode, json.loads(out)["sameLarge"]) == (0, True)
