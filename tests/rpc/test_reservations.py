"""reservation.* over the socket: waiting without polling and in order, expiry by a timer, callers that go away."""

import asyncio
from typing import Any

import pytest

from tests.harness import Harness, RpcError


async def refused(harness: Harness, method: str, /, **params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await harness.call(method, **params)
    return caught.value


async def reserve(harness: Harness, by: str = "ci", **params: Any) -> str:
    made = await harness.call("reservation.acquire", reserved_by=by, **params)
    return str(made["reservation_id"])


async def release(harness: Harness, reservation_id: str) -> None:
    await harness.call("reservation.release", reservation_id=reservation_id)


async def holder(harness: Harness) -> str | None:
    found = (await harness.call("reservation.get"))["reservation"]
    return found and str(found["reserved_by"])


async def told(harness: Harness) -> list[tuple[str, str]]:
    events = (await harness.call("event.list"))["events"]
    return [
        (event["event_type"], event["payload"]["reserved_by"])
        for event in events
        if event["event_type"].startswith("reservation.")
    ]


async def test_taken_names_the_holder_and_until_when(real: Harness) -> None:
    made = await real.call("reservation.acquire", reserved_by="deploy")
    error = await refused(real, "reservation.acquire", reserved_by="other")
    assert (error.code, error.data["code"], error.data["retryable"]) == (4002, "E_RESERVED", True)
    assert (error.data["reserved_by"], error.data["expires_at"]) == ("deploy", made["expires_at"])
    assert "reserved by deploy until" in error.message
    assert error.data["hint"]


async def test_those_who_wait_are_served_in_the_order_they_came(real: Harness) -> None:
    first = await reserve(real, "first")
    clients = [await real.client() for _ in range(5)]
    waiting = []
    for number, client in enumerate(clients):
        waiting.append(client.send("reservation.acquire", reserved_by=str(number), wait_ms=60_000))
        await client.call("initialized")
    error = await refused(real, "reservation.acquire", reserved_by="impatient")
    assert error.data["reserved_by"] == "first"
    current = first
    for client, number in zip(clients, waiting, strict=True):
        await release(real, current)
        current = (await client.result(number))["reservation_id"]
    await release(real, current)
    acquired = [by for kind, by in await told(real) if kind == "reservation.acquired"]
    assert acquired == ["first", "0", "1", "2", "3", "4"]
    for client in clients:
        await client.close()


async def test_a_wait_that_is_over_is_refused_like_one_without(real: Harness) -> None:
    await reserve(real, "deploy")
    error = await refused(real, "reservation.acquire", reserved_by="other", wait_ms=50)
    assert (error.data["code"], error.data["reserved_by"]) == ("E_RESERVED", "deploy")


async def test_who_waits_behind_another_who_waits_is_told_who_holds_it(real: Harness) -> None:
    await reserve(real, "deploy")
    other = await real.client()
    other.send("reservation.acquire", reserved_by="patient", wait_ms=60_000)
    await other.call("initialized")
    error = await refused(real, "reservation.acquire", reserved_by="third", wait_ms=50)
    assert error.data["reserved_by"] == "deploy"
    await other.close()


async def test_it_expires_by_a_timer_and_the_next_who_waits_has_it(manual: Harness) -> None:
    await reserve(manual, "first", ttl_ms=30_000)
    other = await manual.client()
    waiting = other.send("reservation.acquire", reserved_by="second", wait_ms=86_400_000)
    await other.call("initialized")
    job_id = (await manual.enqueue())["job_id"]
    await manual.advance(29_999)
    assert (await holder(manual), await manual.state(job_id)) == ("first", "QUEUED")
    await manual.advance(1)
    made = await other.result(waiting)
    await manual.settle()
    assert [kind for kind, _ in await told(manual)] == [
        "reservation.acquired",
        "reservation.expired",
        "reservation.acquired",
    ]
    assert await manual.state(job_id) == "DONE", "it started in the commit of the expiry"
    await release(manual, made["reservation_id"])
    await other.close()


async def test_a_caller_that_goes_away_while_it_waits_gets_nothing(real: Harness) -> None:
    first = await reserve(real, "first")
    gone, patient = await real.client(), await real.client()
    gone.send("reservation.acquire", reserved_by="gone", wait_ms=60_000)
    await gone.call("initialized")
    waiting = patient.send("reservation.acquire", reserved_by="patient", wait_ms=60_000)
    await patient.call("initialized")
    await gone.close()
    await release(real, first)
    await patient.result(waiting)
    assert ("reservation.acquired", "gone") not in await told(real)
    await patient.close()


async def test_a_call_that_is_cancelled_while_it_waits_gets_nothing(real: Harness) -> None:
    first = await reserve(real, "first")
    other = await real.client()
    waiting = other.send("reservation.acquire", reserved_by="other", wait_ms=60_000)
    await other.call("initialized")
    await other.call("$/cancelRequest", id=waiting)
    with pytest.raises(RpcError) as cancelled:
        await other.result(waiting)
    assert cancelled.value.code == -32800
    await release(real, first)
    assert await holder(real) is None
    await other.close()


async def test_one_that_was_granted_to_a_caller_who_had_just_gone_is_released(real: Harness) -> None:
    """The command is under way when the connection ends."""
    for _ in range(20):
        client = await real.client()
        client.send("reservation.acquire", reserved_by="gone", wait_ms=1000)
        await asyncio.sleep(0)
        await client.close()
        while await holder(real) is not None:
            await real.settle()
        await real.settle()
        assert await holder(real) is None


async def test_jobs_wait_and_start_when_it_is_released(real: Harness) -> None:
    made = await reserve(real)
    job_id = (await real.enqueue())["job_id"]
    await real.settle()
    assert await real.state(job_id) == "QUEUED"
    await release(real, made)
    assert (await real.ended(job_id))["state"] == "DONE"


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("reservation.acquire", {}, None),
        ("reservation.acquire", {"reserved_by": ""}, "$.reserved_by"),
        ("reservation.acquire", {"reserved_by": "x", "ttl_ms": 0}, "$.ttl_ms"),
        ("reservation.acquire", {"reserved_by": "x", "ttl_ms": 86_400_001}, "$.ttl_ms"),
        ("reservation.acquire", {"reserved_by": "x", "wait_ms": -1}, "$.wait_ms"),
        ("reservation.release", {}, None),
    ],
)
async def test_bad_params_are_refused(real: Harness, method: str, params: dict[str, Any], path: str | None) -> None:
    error = await refused(real, method, **params)
    assert error.code == -32602
    assert path is None or error.data["path"] == path
    assert await holder(real) is None


@pytest.mark.parametrize("method", ["reservation.release", "reservation.get"])
async def test_an_unknown_reservation_is_not_found(real: Harness, method: str) -> None:
    error = await refused(real, method, reservation_id="nobody")
    assert (error.code, error.data["code"]) == (4001, "E_RESERVATION_NOT_FOUND")


async def test_the_log_has_a_line_for_each_step(real: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    await release(real, await reserve(real, "deploy"))
    logged = capsys.readouterr()
    text = logged.out + logged.err
    assert "reservation_acquired" in text
    assert "reservation_released" in text
