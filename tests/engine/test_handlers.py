"""Where handlers come from, what they are given, and what is refused before anything is stored or started."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.engine import handlers
from semantica_daemon.errors import StartRefused
from tests.cases import each_case
from tests.harness import Harness, RpcError, daemon

MODULE = """
from msgspec import Struct
class Order(Struct):
    count: int
def sync(ctx, payload):
    return {"sync": payload}
async def later(ctx, payload: "Order"):
    return {"count": payload.count}
class Shop:
    def sell(self, ctx, payload):
        return "sold"
    def __call__(self, ctx, payload):
        return "called"
shop = Shop()
def alone(payload): ...
def lost(ctx, payload: "Missing"): ...
word = "not callable"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder outside site-packages; sys.path and sys.modules are put back."""
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in [name for name in sys.modules if name.endswith("_shop")]:
        del sys.modules[name]


def config_of(folder: Path, **targets: str) -> str:
    lines = "".join(f'{name} = "{target}"\n' for name, target in targets.items())
    return f'handler_path = ["{folder}"]\n[handlers]\n{lines}'


async def run(harness: Harness, job_type: str, **payload: Any) -> Any:
    ack = await harness.enqueue(job_type, payload=payload)
    return await harness.ended(ack["job_id"])


async def test_handlers_of_the_config_run_sync_async_and_as_methods(home: Path, folder: Path) -> None:
    (folder / "own_shop.py").write_text(MODULE)
    targets = {
        "SYNC": "own_shop:sync",
        "LATER": "own_shop:later",
        "SELL": "own_shop:shop.sell",
        "CALL": "own_shop:shop",
    }
    async with daemon(home, None, config_of(folder, **targets)) as harness:
        assert (await run(harness, "SYNC", a=1))["result_summary"] == {"sync": {"a": 1}}
        assert (await run(harness, "LATER", count=3))["result_summary"] == {"count": 3}
        assert (await run(harness, "SELL"))["result_summary"] == "sold"
        assert (await run(harness, "CALL"))["result_summary"] == "called"


async def test_a_handler_path_is_taken_from_where_the_config_lies(home: Path, folder: Path) -> None:
    (home / "plugins").mkdir()
    (home / "plugins" / "near_shop.py").write_text(MODULE)
    async with daemon(home, None, config_of(Path("plugins"), NEAR="near_shop:sync")) as harness:
        assert (await run(harness, "NEAR"))["state"] == "DONE"


async def test_a_handler_of_an_installed_package_is_found_and_the_config_wins(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "inst_shop.py").write_text(MODULE)
    info = folder / "inst_shop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: inst-shop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{handlers.GROUP}]\nINSTALLED = inst_shop:sync\nBOTH = inst_shop:sync\nsemantica.noop = inst_shop:shop.sell\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    async with daemon(home, None, config_of(folder, BOTH="inst_shop:shop.sell")) as harness:
        assert (await run(harness, "INSTALLED", a=1))["result_summary"] == {"sync": {"a": 1}}
        assert (await run(harness, "BOTH"))["result_summary"] == "sold"
        assert (await run(harness, "semantica.noop"))["result_summary"] == "sold"


async def test_the_built_in_handlers_do_what_they_say(real: Harness) -> None:
    assert (await run(real, "semantica.noop", anything=1))["result_summary"] is None
    assert (await run(real, "semantica.echo", a=[1, {"b": None}]))["result_summary"] == {"a": [1, {"b": None}]}
    slept = await run(real, "semantica.sleep", ms=30)
    assert (slept["state"], slept["result_summary"]) == ("DONE", None)
    assert slept["finished_at"] - slept["started_at"] >= 29


async def test_a_handler_knows_its_job_and_attempt(working: Harness) -> None:
    job = await run(working, "about")
    told = {"job_id": job["job_id"], "attempt": 1, "cancelled": False, "workspace": None}
    assert job["result_summary"] == told


@each_case(
    ("job_type", "payload", "path"),
    [
        ("typed", {"title": "a"}, "$.payload"),
        ("typed", {"title": 3, "pages": []}, "$.payload.title"),
        ("typed_async", {"title": "a", "pages": [1, "b"]}, "$.payload.pages[1]"),
        ("typed", {"title": "a", "pages": [], "more": 1}, "$.payload"),
        ("semantica.sleep", {"ms": -1}, "$.payload.ms"),
    ],
)
async def test_a_typed_payload_is_refused_when_it_is_handed_in(
    working: Harness, job_type: str, payload: dict[str, Any], path: str
) -> None:
    with pytest.raises(RpcError) as refused:
        await working.enqueue(job_type, payload=payload)
    assert (refused.value.code, refused.value.data["code"]) == (4000, "E_PAYLOAD")
    assert refused.value.data["path"] == path
    assert refused.value.data["hint"]
    assert (await working.call("job.list"))["items"] == []


async def test_a_typed_payload_arrives_as_its_type(working: Harness) -> None:
    assert (await run(working, "typed", title="a", pages=[1, 2]))["result_summary"] == 2
    assert (await run(working, "typed_async", title="a", pages=[]))["result_summary"] == "a"


async def test_one_refused_payload_refuses_the_whole_lot_with_its_place(working: Harness) -> None:
    jobs = [{"job_type": "semantica.noop"}, {"job_type": "typed", "payload": {"title": 1, "pages": []}}]
    with pytest.raises(RpcError) as refused:
        await working.call("job.enqueue_many", jobs=jobs)
    assert refused.value.data["path"] == "$.jobs[1].payload.title"
    assert (await working.call("job.list"))["items"] == []


async def test_a_job_type_without_a_handler_is_refused_with_the_nearest_name(real: Harness) -> None:
    with pytest.raises(RpcError) as refused:
        await real.enqueue("semantica.nop", execution_mode="IN_PROCESS")
    assert (refused.value.code, refused.value.data["code"]) == (4000, "E_NO_HANDLER")
    assert "semantica.noop" in refused.value.data["hint"]


async def test_a_job_whose_handler_is_gone_after_a_restart_fails_and_says_so(home: Path, folder: Path) -> None:
    (folder / "gone_shop.py").write_text(MODULE)
    async with daemon(home, None, config_of(folder, GONE="gone_shop:sync")) as harness:
        await harness.call("queue.pause")
        job_id = (await harness.enqueue("GONE", max_attempts=5))["job_id"]
    async with daemon(home) as harness:
        await harness.call("queue.resume")
        job = await harness.ended(job_id)
    assert (job["state"], job["error"]["code"], job["error"]["class"]) == ("FAILED", "E_HANDLER", "permanent")
    assert "GONE" in job["error"]["message"]


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("no_such_module:f", "ModuleNotFoundError"),
        ("bad_shop:nothing", "AttributeError"),
        ("bad_shop", "package.module:function"),
        ("", "package.module:function"),
        ("bad_shop:word", "not callable"),
        ("bad_shop:alone", "(ctx, payload)"),
        ("bad_shop:lost", "Missing"),
        ("broken_shop:f", "SyntaxError"),
        ("builtins:dict", "BAD"),
    ],
)
def test_a_handler_that_cannot_be_used_refuses_the_start_by_its_name(folder: Path, target: str, word: str) -> None:
    (folder / "bad_shop.py").write_text(MODULE)
    (folder / "broken_shop.py").write_text("def f(:")
    with pytest.raises(StartRefused) as refused:
        handlers.load({"BAD": target}, [str(folder)])
    assert refused.value.exit_code == 78
    assert "BAD" in str(refused.value)
    assert word in str(refused.value)
