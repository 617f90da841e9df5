"""job.logs: what a run has written, by byte offset, in whole characters, stream by stream, and as it comes."""

import asyncio
import base64
import os
import resource
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_case
from tests.engine.commands import first_line, output, python, run, sh, start, supervisors
from tests.harness import Harness, RpcError, daemon
from tests.stopwatch import Stopwatch

Piece = tuple[str, int]


async def logs(harness: Harness, job_id: str, **asked: Any) -> Any:
    return await harness.call("job.logs", job_id=job_id, **asked)


async def paged(harness: Harness, job_id: str, limit: int) -> list[Any]:
    """Page by page from the beginning to eof."""
    found = [await logs(harness, job_id, limit=limit)]
    while not found[-1]["eof"]:
        assert len(found) < 1000
        found.append(await logs(harness, job_id, limit=limit, offset=found[-1]["next_offset"]))
    return found


async def followed(harness: Harness, job_id: str) -> AsyncIterator[Any]:
    """As a client follows: each call waits for more, the last one says eof."""
    offset = 0
    while True:
        chunk = await logs(harness, job_id, offset=offset, timeout_ms=10_000)
        yield chunk
        offset = chunk["next_offset"]
        if chunk["eof"]:
            return


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Pipes 1, 2 and 3, from each of which a command reads a line before it goes on."""
    for number in (1, 2, 3):
        os.mkfifo(tmp_path / str(number))
    return tmp_path


async def open_gate(gate: Path, number: int = 1) -> None:
    await asyncio.to_thread((gate / str(number)).write_text, "go\n")


async def refusal(harness: Harness, job_id: str, **asked: Any) -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        await logs(harness, job_id, **asked)
    return caught.value.code, caught.value.data.get("code", "") if caught.value.code > 0 else caught.value.data["path"]


async def test_an_offset_reads_on_from_there_and_past_the_end_is_nothing(shared: Harness) -> None:
    job = await run(shared, ["printf", "0123456789"])
    for offset in range(11):
        chunk = await logs(shared, job["job_id"], offset=offset)
        assert (chunk["chunk"], chunk["next_offset"], chunk["eof"]) == ("0123456789"[offset:], 10, True)
    beyond = await logs(shared, job["job_id"], offset=1000)
    assert (beyond["chunk"], beyond["next_offset"], beyond["eof"]) == ("", 1000, True)


async def test_pages_are_no_longer_than_asked_for_and_eof_is_only_at_the_end(shared: Harness) -> None:
    job = await run(shared, ["seq", "1000"])
    pages = await paged(shared, job["job_id"], 100)
    assert "".join(page["chunk"] for page in pages) == "".join(f"{n}\n" for n in range(1, 1001))
    assert all(len(page["chunk"]) <= 100 for page in pages)
    assert [page["eof"] for page in pages] == [False] * (len(pages) - 1) + [True]


@each_case("limit", [1, 2, 3, 4, 5, 7])
async def test_a_character_is_never_cut_whatever_the_limit(shared: Harness, limit: int) -> None:
    text = "aä€😀b" * 3
    job = await run(shared, ["printf", text])
    pages = await paged(shared, job["job_id"], limit)
    assert {page["encoding"] for page in pages} == {"utf-8"}
    assert "".join(page["chunk"] for page in pages) == text


async def test_what_is_no_text_comes_as_base64_and_whole(shared: Harness) -> None:
    program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 40)"
    job = await run(shared, python(program))
    pages = await paged(shared, job["job_id"], 1000)
    assert "base64" in {page["encoding"] for page in pages}
    raw = b"".join(
        base64.b64decode(page["chunk"]) if page["encoding"] == "base64" else page["chunk"].encode() for page in pages
    )
    assert raw == bytes(range(256)) * 40
    assert sum(length for page in pages for _, length in page["streams"]) == len(raw)


async def test_a_character_that_never_became_whole_is_told_at_the_end(shared: Harness) -> None:
    job = await run(shared, ["printf", "ab\\342\\202"])
    pages = await paged(shared, job["job_id"], 100)
    assert [(page["chunk"], page["encoding"]) for page in pages] == [("ab", "utf-8"), ("4oI=", "base64")]


async def test_a_job_without_output_is_at_its_end_at_once(shared: Harness) -> None:
    job = await run(shared, sh("exit 3"))
    chunk = await logs(shared, job["job_id"], timeout_ms=5000)
    assert (chunk["chunk"], chunk["next_offset"], chunk["eof"], chunk["streams"]) == ("", 0, True, [])
    assert (chunk["state"], chunk["exit_code"], chunk["error"]["code"]) == ("FAILED", 3, "E_EXIT")
    assert (chunk["run"], chunk["truncated"]) == (1, False)


async def test_a_job_that_has_not_run_has_no_run_and_no_end(shared: Harness) -> None:
    ack = await shared.enqueue("T", payload={"argv": ["true"]}, schedule={"type": "AFTER", "delay_ms": 3_600_000})
    chunk = await logs(shared, ack["job_id"])
    assert (chunk["chunk"], chunk["eof"], chunk["run"], chunk["run_id"]) == ("", False, None, None)
    assert chunk["state"] == "SCHEDULED"
    await shared.call("job.cancel", job_id=ack["job_id"])
    assert (await logs(shared, ack["job_id"]))["eof"] is True


async def test_a_handler_s_job_has_an_end_and_no_output(shared: Harness) -> None:
    ack = await shared.enqueue()
    await shared.ended(ack["job_id"])
    chunk = await logs(shared, ack["job_id"])
    assert (chunk["chunk"], chunk["eof"], chunk["run"], chunk["state"]) == ("", True, 1, "DONE")


async def test_both_streams_are_told_apart_in_the_order_they_came(shared: Harness) -> None:
    program = (
        "import os, time\n"
        "log, size = os.environ['SEMANTICA_WORKSPACE'] + '/job.log', 0\n"
        "for n, text in ((1, b'out'), (2, b'ERR'), (2, b'or'), (1, b'more'), (2, b'!')):\n"
        "  size += os.write(n, text)\n"
        "  while not os.path.exists(log) or os.path.getsize(log) < size: time.sleep(0.001)\n"
    )
    job = await run(shared, python(program))
    chunk = await logs(shared, job["job_id"])
    assert chunk["chunk"] == "outERRormore!"
    assert chunk["streams"] == [["stdout", 3], ["stderr", 5], ["stdout", 4], ["stderr", 1]]
    for limit in (4, 5, 7):
        pages = await paged(shared, job["job_id"], limit)
        assert by_stream(pages) == {"stdout": "outmore", "stderr": "ERRor!"}
    assert by_stream([await logs(shared, job["job_id"], offset=5)]) == {"stdout": "more", "stderr": "Ror!"}


def taken_apart(page: Any) -> list[tuple[str, str]]:
    found, at = [], 0
    data = page["chunk"].encode()
    for name, length in page["streams"]:
        found.append((name, data[at : at + length].decode()))
        at += length
    assert at == len(data)
    return found


def by_stream(pages: list[Any]) -> dict[str, str]:
    found = {"stdout": "", "stderr": ""}
    for page in pages:
        for name, text in taken_apart(page):
            found[name] += text
    return found


async def test_streams_that_change_with_every_line_are_all_told(shared: Harness) -> None:
    program = "import os\nfor n in range(6000): os.write(1 + n % 2, b'%d\\n' % n)\n"
    job = await run(shared, python(program))
    found = by_stream(await paged(shared, job["job_id"], 1_048_576))
    assert found["stdout"] == "".join(f"{n}\n" for n in range(0, 6000, 2))
    assert found["stderr"] == "".join(f"{n}\n" for n in range(1, 6000, 2))


async def test_output_is_seen_as_it_comes(shared: Harness, gate: Path) -> None:
    job_id = await start(shared, sh(f"for n in 1 2 3; do echo $n; read line < {gate}/$n; done"))
    seen = []
    async for chunk in followed(shared, job_id):
        seen.append((chunk["chunk"], chunk["eof"], chunk["state"]))
        if chunk["chunk"]:
            assert not chunk["eof"], "it stands at its gate"
            await open_gate(gate, int(chunk["chunk"]))
    assert seen == [("1\n", False, "RUNNING"), ("2\n", False, "RUNNING"), ("3\n", False, "RUNNING"), ("", True, "DONE")]


async def test_a_wait_ends_when_its_time_is_over_and_is_no_eof(shared: Harness, gate: Path) -> None:
    job_id = await start(shared, sh(f"echo 1; read line < {gate}/1"))
    await first_line(shared, job_id)
    watch, began = Stopwatch(), time.monotonic()
    chunk = await logs(shared, job_id, offset=2, timeout_ms=200)
    assert time.monotonic() - began > 0.19
    assert watch.seconds() < 2
    assert (chunk["chunk"], chunk["eof"], chunk["next_offset"]) == ("", False, 2)
    await open_gate(gate)
    await shared.ended(job_id)


async def test_a_wait_begins_before_the_job_does(shared: Harness) -> None:
    await shared.call("queue.pause", queue="later")
    ack = await shared.enqueue("T", payload={"argv": ["echo", "here"]}, queue="later")
    client = await shared.client()
    waiting = client.send("job.logs", job_id=ack["job_id"], timeout_ms=10_000)
    await client.call("admin.health")
    await shared.call("queue.resume", queue="later")
    assert (await client.result(waiting))["chunk"] == "here\n"
    await client.close()


async def test_every_follower_is_woken_also_beside_one_that_is_far_ahead(shared: Harness, gate: Path) -> None:
    job_id = await start(shared, sh(f"echo 1; read line < {gate}/1; echo 2; read line < {gate}/2"))
    await first_line(shared, job_id)
    clients = [await shared.client() for _ in range(3)]
    offsets = (2, 1_000_000, 2)
    waiting = [
        client.send("job.logs", job_id=job_id, offset=offset, timeout_ms=8000)
        for client, offset in zip(clients, offsets, strict=True)
    ]
    for client in clients:  # the same way again, and shorter: by then the first ones do wait
        assert (await client.call("job.logs", job_id=job_id, offset=1_000_000, timeout_ms=1))["chunk"] == ""
    await open_gate(gate)
    async with asyncio.timeout(5):
        assert [(await clients[n].result(waiting[n]))["chunk"] for n in (0, 2)] == ["2\n", "2\n"]
    await open_gate(gate, 2)
    ahead = await clients[1].result(waiting[1])
    assert (ahead["chunk"], ahead["eof"], ahead["next_offset"]) == ("", True, 1_000_000)
    for client in clients:
        await client.close()


async def test_a_follower_that_goes_away_is_nothing_to_the_others(shared: Harness, gate: Path) -> None:
    job_id = await start(shared, sh(f"echo 1; read line < {gate}/1; echo 2"))
    await first_line(shared, job_id)
    for _ in range(5):
        client = await shared.client()
        client.send("job.logs", job_id=job_id, offset=2, timeout_ms=60_000)
        await client.call("job.logs", job_id=job_id, offset=2, timeout_ms=1)
        await client.close()
    waiting = asyncio.create_task(logs(shared, job_id, offset=2, timeout_ms=8000))
    await open_gate(gate)
    assert (await waiting)["chunk"] == "2\n"


async def test_half_a_character_keeps_a_follower_waiting_and_nobody_busy(shared: Harness, gate: Path) -> None:
    job_id = await start(shared, sh(f"printf 'a\\303'; read line < {gate}/1; printf '\\244'"))
    assert (await logs(shared, job_id, timeout_ms=8000))["chunk"] == "a"
    waiting = asyncio.create_task(logs(shared, job_id, offset=1, timeout_ms=8000))
    await asyncio.sleep(0)
    before = time.process_time()
    await asyncio.wait({waiting}, timeout=0.5)
    assert time.process_time() - before < 0.25
    assert not waiting.done()
    await open_gate(gate)
    assert (await waiting)["chunk"] == "ä"


async def test_each_run_has_its_own_log_and_the_newest_is_meant(shared: Harness) -> None:
    script = sh("echo run $SEMANTICA_ATTEMPT; test $SEMANTICA_ATTEMPT = 2")
    job = await run(shared, script, max_attempts=2, backoff_base_ms=1)
    first, second = job["runs"]
    newest = await logs(shared, job["job_id"])
    assert (newest["chunk"], newest["run"], newest["run_id"]) == ("run 2\n", 2, second["run_id"])
    for asked in ({"run": 1}, {"run_id": first["run_id"]}, {"run": 1, "run_id": first["run_id"]}):
        chunk = await logs(shared, job["job_id"], **asked)
        assert (chunk["chunk"], chunk["run_id"], chunk["eof"]) == ("run 1\n", first["run_id"], True)
        assert (chunk["state"], chunk["exit_code"]) == ("DONE", 0), "how the job stands, not that run"


async def test_a_run_that_is_over_is_at_its_end_though_its_job_is_not(shared: Harness) -> None:
    job_id = await start(shared, sh("echo x; exit 1"), max_attempts=2, backoff_base_ms=3_600_000)
    chunk = await logs(shared, job_id, timeout_ms=8000)
    while chunk["state"] != "SCHEDULED":
        chunk = await logs(shared, job_id, timeout_ms=50, offset=2)
    assert (await logs(shared, job_id, run=1))["eof"] is True
    assert (await logs(shared, job_id))["eof"] is False, "another run will follow"
    await shared.call("job.cancel", job_id=job_id)
    assert (await logs(shared, job_id))["eof"] is True


async def test_what_is_not_there_is_said_to_be_missing(shared: Harness) -> None:
    job = await run(shared, ["true"])
    other = await run(shared, ["true"])
    assert await refusal(shared, "abcdabcd") == (4001, "E_JOB_NOT_FOUND")
    assert await refusal(shared, job["job_id"], run=2) == (4001, "E_RUN_NOT_FOUND")
    assert await refusal(shared, job["job_id"], run_id="nobody") == (4001, "E_RUN_NOT_FOUND")
    assert await refusal(shared, job["job_id"], run_id=other["run_id"]) == (4001, "E_RUN_NOT_FOUND")
    for asked in ({"run": 0}, {"offset": -1}, {"limit": 0}, {"limit": 1_048_577}, {"timeout_ms": -1}):
        ((name, _),) = asked.items()
        assert await refusal(shared, job["job_id"], **asked) == (-32602, f"$.{name}")
    assert (await logs(shared, job["job_id"][:8]))["run_id"] == job["run_id"], "a prefix works here too"


async def test_a_log_that_somebody_has_removed_is_an_empty_one(shared: Harness) -> None:
    job = await run(shared, ["echo", "x"])
    os.unlink(job["log_path"])
    chunk = await logs(shared, job["job_id"])
    assert (chunk["chunk"], chunk["eof"]) == ("", True)


@pytest.fixture
async def small(home: Path) -> AsyncIterator[Harness]:
    """A daemon that keeps 100,000 bytes of a run's output."""
    async with daemon(home, None, "[daemon]\nmax_slots = 2\n[limits]\nlog_bytes = 100000\n") as harness:
        yield harness


async def test_past_its_limit_the_log_keeps_both_ends_and_names_what_is_missing(small: Harness) -> None:
    job = await run(small, sh("seq 100000; echo the end >&2; exit 5"))
    assert job["exit_code"] == 5
    pages = await paged(small, job["job_id"], 1_048_576)
    head, notice, *rest = pages
    whole = "".join(f"{n}\n" for n in range(1, 100_001)) + "the end\n"
    end = "".join(page["chunk"] for page in rest)
    missing = len(whole) - 50_000 - len(end)
    assert (head["chunk"], whole.endswith(end), len(end) > 43_000) == (whole[:50_000], True, True)
    assert notice["chunk"] == f"\n[semantica: {missing} bytes of output are missing here]\n"
    assert (notice["next_offset"], notice["streams"][0][0]) == (50_000 + missing, "stderr")
    assert by_stream(rest)["stderr"] == "the end\n"
    assert {page["truncated"] for page in pages} == {True}
    lines = (await small.call("event.list", job_id=job["job_id"], event_types=["job.log"]))["events"]
    assert [(line["level"], f"{missing} between are missing" in line["message"]) for line in lines] == [("warn", True)]
    exact = await run(small, ["head", "-c", "100000", "/dev/zero"])
    assert {page["truncated"] for page in await paged(small, exact["job_id"], 1_048_576)} == {False}


async def test_a_character_on_the_border_of_two_files_is_whole(small: Harness) -> None:
    text = "x" + "ä" * 40_000
    job = await run(small, python(f"print({text[:2]!r} + 'ä' * 39_999, end='')"))
    assert "".join(page["chunk"] for page in await paged(small, job["job_id"], 1000)) == text
    cut = await run(small, python("print('x' + 'ä' * 90_000, end='')"))
    first, border, notice, *rest = await paged(small, cut["job_id"], 1_048_576)
    assert (first["chunk"], border["encoding"]) == ("x" + "ä" * 24_999, "base64")
    assert "bytes of output are missing here" in notice["chunk"]
    assert rest[-1]["eof"] is True


async def attached(harness: Harness, argv: list[str]) -> str:
    """The id of a job that a caller follows from its first output on."""
    attach_id = (await harness.call("job.attach"))["attach_id"]
    return await start(harness, argv, attach_id=attach_id)


async def test_a_run_waits_for_a_follower_that_is_behind(small: Harness) -> None:
    job_id = await attached(small, ["head", "-c", "5000000", "/dev/zero"])
    assert (await small.call("job.wait", job_id=job_id, timeout_ms=300))["finished"] is False
    size, chunk = 0, await logs(small, job_id, follow=True, limit=1_048_576, timeout_ms=8000)
    while not chunk["eof"]:
        size += len(chunk["chunk"])
        chunk = await logs(small, job_id, follow=True, limit=1_048_576, offset=chunk["next_offset"], timeout_ms=8000)
    assert (size + len(chunk["chunk"]), chunk["state"]) == (5_000_000, "DONE")


async def test_a_run_does_not_wait_for_a_follower_that_is_gone(small: Harness, gate: Path) -> None:
    job_id = await attached(small, sh(f"echo begun; read line < {gate}/1; head -c 5000000 /dev/zero"))
    client = await small.client()
    assert (await client.call("job.logs", job_id=job_id, follow=True, timeout_ms=8000))["chunk"] == "begun\n"
    client.send("job.logs", job_id=job_id, follow=True, offset=6, timeout_ms=60_000)
    await client.call("job.get", job_id=job_id)
    await client.close()
    await open_gate(gate)
    assert (await small.ended(job_id))["state"] == "DONE"


def rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("endless", [["head", "-c", "300000000", "/dev/zero"], ["sh", "-c", "yes | head -c 300000000"]])
async def test_a_job_that_writes_without_end_keeps_everybody_small(small: Harness, endless: list[str]) -> None:
    await run(small, sh("head -c 3000000 /dev/zero; echo x"))
    (supervisor,) = supervisors(small)
    before = (rss(os.getpid()), rss(supervisor))
    job_id = await start(small, endless)
    most, chunk = [0, 0], await logs(small, job_id, timeout_ms=8000)
    while not chunk["eof"]:
        chunk = await logs(small, job_id, offset=chunk["next_offset"], timeout_ms=50)
        most = [max(most[0], rss(os.getpid())), max(most[1], rss(supervisor))]
    assert chunk["state"] == "DONE"
    assert (most[0] - before[0] < 20_000_000, most[1] - before[1] < 3_000_000) == (True, True)


async def test_following_reads_every_byte_once(shared: Harness) -> None:
    """Fifty thousand lines while they are written: what the follower has is what the file has."""
    job_id = await start(shared, ["seq", "50000"])
    text = ""
    async for chunk in followed(shared, job_id):
        text += chunk["chunk"]
    assert text == "".join(f"{n}\n" for n in range(1, 50_001))
    assert (await output(shared, job_id)) == text
