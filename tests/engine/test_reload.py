"""config.toml is read again while the daemon runs: what changes at once, what needs a restart, and a broken file."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from semantica_daemon.config import Config, DaemonSection, LimitsSection
from semantica_daemon.model.machine import MachineRules
from semantica_daemon.model.queue import QueueRules
from semantica_daemon.reload import LIVE, change_to
from semantica_daemon.store.tx import Tx
from tests.engine.commands import sh
from tests.harness import Harness, Process


async def reload(real: Harness, text: str) -> Any:
    (real.paths.data / "config.toml").write_text(text)
    return await real.call("admin.config", reload=True)


async def test_more_slots_start_a_job_that_waits(real: Harness, tmp_path: Path) -> None:
    """Two jobs hold both slots until the third, which needs another one, has made the file they wait for."""
    wait, go = f"until test -e {tmp_path}/go; do sleep 0.02; done", f"touch {tmp_path}/go"
    *first, third = [(await real.enqueue("sh", payload={"argv": sh(one)}))["job_id"] for one in (wait, wait, go)]
    found = await reload(real, "[daemon]\nmax_slots = 3\n")
    assert (found["file"]["changed"], found["daemon"]["max_slots"]) == (["daemon.max_slots"], 3)
    assert [(await real.ended(job_id))["state"] for job_id in (third, *first)] == ["DONE"] * 3
    assert (await real.call("admin.stats"))["system"]["slots"] == 3


async def test_full_durability_moves_commits_off_the_loop(manual: Harness) -> None:
    """A synced commit waits for the disk. The daemon rests first: a slow command of its own would share the batch."""
    threads: list[threading.Thread] = []

    def note_thread(tx: Tx, request: None) -> None:
        threads.append(threading.current_thread())

    await manual.settle()
    await manual.daemon.commands.run(note_thread, None, slow=False)
    await reload(manual, '[daemon]\nmax_slots = 2\ndurability = "full"\n')
    await manual.daemon.commands.run(note_thread, None, slow=False)
    loop = threading.current_thread()
    assert [thread is loop for thread in threads] == [True, False]


async def test_rules_of_queues_and_of_the_machine_change(real: Harness) -> None:
    job_id = (await real.enqueue(schedule={"type": "CONDITION", "wait_for_idle": True}))["job_id"]
    text = '[daemon]\nmax_slots = 2\n[queues.q]\nslots = 1\nmax_queued = 7\n[machine]\nidle = "always"\n'
    found = await reload(real, text)
    assert found["file"]["changed"] == ["machine.idle", "queues.q"]
    assert (await real.ended(job_id))["state"] == "DONE"
    queues = {one["queue"]: one for one in (await real.call("queue.list"))["queues"]}
    assert (queues["q"]["slots"], queues["q"]["max_queued"]) == (1, 7)


async def test_what_needs_a_restart_is_named_until_then(real: Harness) -> None:
    text = '[daemon]\nmax_slots = 2\nlog_format = "json"\ngrace_ms = 40\n[handlers]\nX = "json:dumps"\n'
    found = await reload(real, text)
    assert found["file"] == {
        "newer": False, "problem": None, "changed": ["daemon.grace_ms"],
        "needs_restart": ["daemon.log_format", "handlers.X"],
    }  # fmt: skip
    assert (found["daemon"]["log_format"], found["handlers"]) == ("auto", {})
    again = (await real.call("admin.config"))["file"]
    assert (again["changed"], again["needs_restart"]) == ([], ["daemon.log_format", "handlers.X"])


@pytest.mark.parametrize("text", ["[daemon\n", "[daemon]\nmax_slot = 1\n", "[daemon]\nmax_slots = -1\n"])
async def test_a_broken_file_keeps_the_settings(real: Harness, text: str) -> None:
    before = await real.call("admin.config")
    found = await reload(real, text)
    assert found["daemon"] == before["daemon"]
    assert (found["file"]["newer"], found["file"]["changed"]) == (True, [])
    assert "config.toml" in found["file"]["problem"]
    repaired = await reload(real, "[daemon]\nmax_slots = 4\n")
    assert (repaired["file"]["problem"], repaired["daemon"]["max_slots"]) == (None, 4)


async def test_a_file_that_changed_is_reported_until_it_is_read(real: Harness) -> None:
    file = real.paths.data / "config.toml"
    assert (await real.call("admin.config"))["file"]["newer"] is False
    file.unlink()
    assert (await real.call("admin.config"))["file"]["newer"] is True
    assert (await real.call("admin.config", reload=True))["file"]["newer"] is False


def test_sighup_reads_the_file_again(home: Path) -> None:
    with Process(home) as daemon:
        daemon.start()
        (home / "config.toml").write_text('[daemon]\nmax_slots = 5\nlog_level = "debug"\n')
        subscribe = {"jsonrpc": "2.0", "id": 1, "method": "event.subscribe"}
        with daemon.connect() as connection, connection.makefile("rwb") as stream:
            stream.write(json.dumps({**subscribe, "params": {"event_types": ["daemon.reloaded"]}}).encode() + b"\n")
            stream.flush()
            stream.readline()
            daemon.signal(signal.SIGHUP)
            (event,) = json.loads(stream.readline())["params"]["events"]
        assert event["payload"] == {"changed": ["daemon.log_level", "daemon.max_slots"], "needs_restart": []}
        daemon.call("job.enqueue", job_type="semantica.noop")
        assert daemon.call("admin.config")["daemon"]["max_slots"] == 5
        assert daemon.stop() == 0
        assert "job_queued" in (home / "stderr.log").read_text()


def test_sighup_does_not_end_a_daemon_that_starts(home: Path) -> None:
    """It waits for its configuration, which is a pipe here, while it gets the signal."""
    os.mkfifo(home / "config.toml")
    with Process(home) as daemon:
        daemon.start(ready=False)
        with (home / "config.toml").open("w") as pipe:
            daemon.signal(signal.SIGHUP)
            (home / "config.toml").unlink()  # for whoever reads it once more
            pipe.write("[daemon]\nmax_slots = 5\n")
        daemon.wait_ready()
        assert daemon.call("admin.config")["daemon"]["max_slots"] == 5


def test_every_setting_is_live_or_needs_a_restart() -> None:
    """A changed value of each setting is on exactly one of the two lists."""
    new = Config(
        DaemonSection(7, 1, "full", "debug", "json", ["X"], "/c"), {"q": QueueRules(1)},
        MachineRules("always", "mains", 5), LimitsSection(1), {"X": "json:dumps"}, ["/x"],
    )  # fmt: skip
    change = change_to(Config(), new)
    names = {f"{section}.{key}" for section, keys in LIVE.items() for key in keys}
    assert set(change.changed) == names | {"queues.q"}
    every = {f"{name}.{key}" for name in ("daemon", "machine", "limits") for key in msgspec.to_builtins(new)[name]}
    assert {*change.changed, *change.needs_restart} == every | {"queues.q", "handlers.X", "handler_path"}
