"""machine.get and machine.activity over the socket: what is known of idle and power, by whom, and who is asked."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine.machines import use_fake_sources
from tests.harness import Harness, ManualClock, daemon

IDLE = {"type": "CONDITION", "wait_for_idle": True}
POWER = {"type": "CONDITION", "require_charging": True}


def by_source(view: Any) -> dict[str, Any]:
    return {one["source"]: one for one in view["sources"]}


async def test_nobody_can_tell_and_each_says_why(desk: Harness) -> None:
    view = await desk.call("machine.get")
    assert (view["idle"], view["idle_for_ms"], view["idle_source"]) == (None, None, None)
    assert [(one["kind"], one["source"], one["answer"]) for one in view["sources"]] == [
        ("idle", "tty", None),
        ("idle", "load", None),
        ("power", "told", False),
    ]
    assert all("DISPLAY=:9" in one["detail"] for one in view["sources"][:2])
    assert (view["charging"], view["power_source"], view["idle_ms"]) == (False, "told", 120_000)


async def test_what_editors_say_comes_first_and_is_the_youngest_of_them(desk: Harness) -> None:
    for source in ("nvim", "emacs"):
        assert await desk.call("machine.activity", source=source) == {"idle": False, "idle_ms": 120_000}
        await desk.advance(30_000)
    view = await desk.call("machine.get")
    assert (view["idle"], view["idle_for_ms"], view["idle_source"]) == (False, 30_000, "editors")
    (editors, *_) = view["sources"]
    assert (editors["source"], editors["answer"], editors["idle_for_ms"]) == ("editors", False, 30_000)
    assert editors["detail"].startswith("emacs")
    await desk.advance(90_000)
    view = await desk.call("machine.get")
    assert (view["idle"], view["idle_for_ms"]) == (True, 120_000)
    assert (await desk.call("machine.activity", source="nvim"))["idle"] is False


async def test_a_thousand_editors_are_not_all_remembered(desk: Harness) -> None:
    for number in range(150):
        await desk.call("machine.activity", source=f"editor {number}")
    assert len(desk.daemon.machine._editors) == 100
    assert by_source(await desk.call("machine.get"))["editors"]["idle_for_ms"] == 0


async def test_an_editor_that_is_told_of_again_and_again_is_one(desk: Harness) -> None:
    for _ in range(3):
        await desk.call("machine.activity", source="nvim")
    assert list(desk.daemon.machine._editors) == ["nvim"]


async def test_it_is_watched_only_while_some_job_waits_for_it(desk: Harness) -> None:
    assert (await desk.call("machine.get"))["watching"] == []
    ids = [(await desk.enqueue(schedule=schedule))["job_id"] for schedule in (IDLE, POWER)]
    await desk.settle()
    assert (await desk.call("machine.get"))["watching"] == ["idle", "power"]
    await desk.call("job.cancel", job_id=ids[0])
    await desk.advance(30_000)
    assert (await desk.call("machine.get"))["watching"] == ["power"]
    await desk.call("job.cancel", job_id=ids[1])
    await desk.advance(30_000)
    assert (await desk.call("machine.get"))["watching"] == []


async def test_stats_say_whether_it_is_idle_as_far_as_that_is_known(desk: Harness) -> None:
    async def is_idle() -> Any:
        return (await desk.call("admin.stats"))["system"]["is_idle"]

    assert await is_idle() is None
    await desk.call("machine.activity", source="nvim")
    await desk.call("queue.pause")
    await desk.enqueue(schedule=IDLE)
    await desk.settle()
    assert await is_idle() is False
    await desk.advance(120_000)
    assert await is_idle() is True


@pytest.mark.parametrize(("text", "known"), [('idle = "never"', False), ('idle = "always"', True)])
async def test_an_override_wins_and_the_sources_are_shown_all_the_same(home: Path, text: str, known: bool) -> None:
    async with daemon(home, ManualClock(), f"[machine]\n{text}\npower = 'battery'\nidle_ms = 1000\n") as harness:
        use_fake_sources(harness, mains=True)
        activity = await harness.call("machine.activity", source="nvim")
        assert activity == {"idle": known, "idle_ms": 1000}
        view = await harness.call("machine.get")
        assert (view["idle"], view["idle_source"], view["idle_for_ms"]) == (known, "config", None)
        assert (view["charging"], view["power_source"]) == (False, "config")
        assert by_source(view)["editors"]["answer"] is False
        assert by_source(view)["told"]["answer"] is True
        assert (await harness.call("admin.stats"))["system"]["is_idle"] is known


async def test_it_stores_nothing_and_tells_the_stream_nothing(desk: Harness) -> None:
    await desk.settle()
    before = desk.daemon.feed.newest
    await desk.call("machine.activity", source="nvim")
    await desk.call("machine.get")
    assert desk.daemon.feed.newest == before


async def test_this_very_machine_answers(real: Harness) -> None:
    """With its own sources, whatever they say: each has a detail, and the answer is one of theirs."""
    view = await real.call("machine.get")
    assert {one["kind"] for one in view["sources"]} == {"idle", "power"}
    assert all(one["detail"] for one in view["sources"])
    sources = by_source(view)
    assert view["idle_source"] is None or sources[view["idle_source"]]["idle_for_ms"] is not None
    assert sources[view["power_source"]]["answer"] == view["charging"]
