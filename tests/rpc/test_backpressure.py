"""A connection that has reached a limit goes on reading when half of it is free, not a call at a time."""

import asyncio

import pytest

from semantica_daemon.engine import commands
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.rpc.calls import MAX_IN_FLIGHT, Services
from semantica_daemon.rpc.connection import Connection
from semantica_daemon.store.database import Command
from semantica_daemon.store.writes.lifecycle import nothing
from tests.harness import Harness
from tests.rpc.wire import Wire, request

COUNT = 3 * MAX_IN_FLIGHT


class Observed(Connection):
    """Notes how many calls are in flight each time it takes in messages."""

    def __init__(self, services: Services, connections: set[Connection]) -> None:
        super().__init__(services, connections)
        self.taken: list[tuple[int, int]] = []  # (in flight before, messages taken)

    def room(self) -> int:
        room = super().room()
        if room:
            self.taken.append((self.calls.in_flight, 0))
        return room

    def receive(self, message: bytes) -> None:
        before, count = self.taken[-1]
        self.taken[-1] = before, count + 1
        super().receive(message)


async def test_a_pipelined_client_is_read_again_when_half_of_its_calls_are_done(
    real: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await real.call("queue.pause")
    monkeypatch.setattr("semantica_daemon.rpc.server.Connection", Observed)
    wire = await Wire.open(real.paths.socket)
    wire.send(b"".join(request("job.enqueue", id=number, job_type="semantica.noop") + b"\n" for number in range(COUNT)))
    replies = await wire.messages(COUNT, 60)
    assert sorted(reply["id"] for reply in replies) == list(range(COUNT))
    (connection,) = [one for one in real.daemon.server._connections if isinstance(one, Observed)]
    took_again = [before for before, count in connection.taken if count and before]
    assert max(before + count for before, count in connection.taken) == MAX_IN_FLIGHT, "the limit was reached"
    full = [before for before in took_again if before > MAX_IN_FLIGHT // 2]
    assert len(full) <= COUNT // 400, "only chunks that came before the limit was reached"


async def test_calls_that_wait_do_not_keep_the_others_from_being_read(real: Harness) -> None:
    """600 waits stay in flight: half of the other 400 places have to be free, not half of all."""
    later = {"type": "AFTER", "delay_ms": 3_600_000}
    job = await real.call("job.enqueue", job_type="semantica.noop", schedule=later)
    wire = await Wire.open(real.paths.socket)
    for number in range(600):
        wire.put(request("job.wait", id=number, job_id=job["job_id"], timeout_ms=60_000))
    for number in range(1000, 3000):
        wire.put(request("job.plan", id=number, job_type="semantica.noop"))
    replies = await wire.messages(2000, 30)
    assert sorted(reply["id"] for reply in replies) == list(range(1000, 3000))
    await real.call("job.cancel", job_id=job["job_id"])
    assert len(await wire.messages(600, 30)) == 600


async def test_a_full_queue_has_room_again_when_it_is_half_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_WAITING", 10)
    monkeypatch.setattr(commands, "ROOM_AGAIN", 5)
    queue = CommandQueue()
    resumed: list[int] = []
    for _ in range(10):
        assert not queue.full
        queue.submit(Command(nothing, None))
    assert (queue.full, queue.room) == (True, 0)
    queue.when_room(lambda: resumed.append(len(queue)))
    for _ in range(4):
        queue.take(1)
        queue.announce_room()
    assert (queue.full, resumed) == (True, [])
    queue.take(1)
    queue.announce_room()
    assert (queue.full, queue.room, resumed) == (False, 5, [5])


async def test_a_half_closed_client_with_more_calls_than_the_limit_gets_every_answer(real: Harness) -> None:
    await real.call("queue.pause")
    wire = await Wire.open(real.paths.socket)
    wire.send(b"".join(request("job.enqueue", id=number, job_type="semantica.noop") + b"\n" for number in range(COUNT)))
    wire.half_close()
    replies = await wire.messages(COUNT, 60)
    assert sorted(reply["id"] for reply in replies) == list(range(COUNT))
    await asyncio.wait_for(wire.ended(), 10)


def test_the_limits_are_those_of_the_protocol() -> None:
    assert (MAX_IN_FLIGHT, commands.MAX_WAITING, commands.ROOM_AGAIN) == (1000, 10_000, 5000)
