"""Two thousand requests made from the table itself with junk mixed in: each is answered exactly once, by a result or an
error and never by an internal one, and the daemon goes on."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from semantica_daemon.wire.methods import LATER, METHODS
from tests.harness import Harness
from tests.rpc.wire import Wire, request

REQUESTS = 2000
ENDING = {"exit", "admin.shutdown"}
JUNK: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, -0.0, 2**31, 10**15, 10**15 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1,
    "", "x", "\x00", "ä€😀", "\ud83d\ude00", "١٢٣", "a" * 300, "job", "#0", "*", "%", "'; --", "1e5", "NaN", "default",
    "DONE", "00000000-0000-4000-8000-000000000000", [], [[]], [None], ["x"] * 50, {}, {"a": 1}, {"": []},
]  # fmt: skip

COMMANDS: list[Any] = [
    ["true"], ["true"], ["false"], ["echo", "ä"], ["sleep", "0.01"], ["sh", "-c", "kill $$"], ["no-such-command"],
    ["/"], [], [""], ["a\0"], [1], "true", ["true", "x" * 200_000],
]  # fmt: skip
WITH: list[dict[str, Any]] = [
    {}, {}, {"cwd": "/"}, {"cwd": "/nowhere"}, {"cwd": "x"}, {"stdin": "x"}, {"umask": 18}, {"umask": 999},
    {"shell": True},
]  # fmt: skip


class Maker:
    """Requests by one seed. `known` are ids of jobs and subscriptions that were answered, so that some calls hit;
    `mischief` is how likely each value of the present request is to be wrong."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.known: list[str] = []
        self.mischief = 0.0

    def call(self, number: int) -> bytes:
        self.mischief = self.random.choice([0, 0, 0.03, 0.2])
        method = self._method()
        params = self._params(method)
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None or self.random.random() < 0.5:
            body["params"] = params
        return json.dumps(body).encode()

    def _method(self) -> str:
        chance = self.random.random()
        if chance < 0.03:
            return self.random.choice(["", "job", "job.", ".", "x" * 50, "job.list ", "rpc.", "ä", "__class__"])
        if chance < 0.06:
            family = self.random.choice(list(LATER))
            return f"{family}.{self.random.choice(LATER[family].split())}"
        return self.random.choice([method.name for method in METHODS if method.name not in ENDING])

    def _params(self, name: str) -> Any:
        found = [method for method in METHODS if method.name == name]
        if not found or self.random.random() < self.mischief:
            return self.random.choice(JUNK)
        return self._value(inspect.type_info(found[0].params))

    def _value(self, kind: inspect.Type, name: str = "") -> Any:
        """Mostly what the type asks for, now and then something else."""
        if self.random.random() < self.mischief:
            return self.random.choice(JUNK)
        if name in ("job_id", "job_ids", "subscription_id") and self.known and self.random.random() < 0.7:
            return self.random.choice(self.known)[: self.random.choice([36, 36, 8, 4])]
        if name == "payload" and self.random.random() < 0.3:
            return {"argv": self.random.choice(COMMANDS), **self.random.choice(WITH)}
        return self._typed(kind, name)

    def _typed(self, kind: inspect.Type, name: str) -> Any:
        if name == "job_type":
            return self.random.choice(["semantica.noop", "semantica.echo", "semantica.sleep", "semantica.noop", "T"])
        if isinstance(kind, inspect.Metadata):
            return self._value(kind.type, name)
        if isinstance(kind, inspect.UnionType):
            return self._value(self.random.choice(kind.types), name)
        if isinstance(kind, inspect.LiteralType):
            return self.random.choice(kind.values)
        if isinstance(kind, inspect.StructType):
            return self._struct(kind)
        return self._plain(kind, name)

    def _struct(self, kind: inspect.StructType) -> dict[str, Any]:
        share = self.random.choice([0.05, 0.2, 0.6])
        made = {
            field.encode_name: self._value(field.type, field.encode_name)
            for field in kind.fields
            if field.required or self.random.random() < share
        }
        if self.random.random() < self.mischief:
            made[self.random.choice(["x", "", "priority ", "ä", "__proto__"])] = self.random.choice(JUNK)
        return made

    def _plain(self, kind: inspect.Type, name: str) -> Any:
        if isinstance(kind, inspect.NoneType):
            return None
        if isinstance(kind, inspect.IntType):
            low, high = kind.ge if kind.ge is not None else 0, kind.le if kind.le is not None else 2**40
            near = self.random.randint(low, min(high, low + 50))
            return self.random.choice([low, high, near, near] + ([low - 1, high + 1] if self.mischief else []))
        if isinstance(kind, inspect.FloatType):
            return self.random.choice([1, 2.5, 100] + ([101, -1.0, 0] if self.mischief else []))
        if isinstance(kind, inspect.BoolType):
            return self.random.random() < 0.5
        if isinstance(kind, inspect.StrType):
            wrong = ["t" * 600, "x y", "a\x00", "", "ä"] if self.mischief else []
            return self.random.choice(["abcd", "beef", "default", "a" * (kind.max_length or 30), *wrong])
        if isinstance(kind, inspect.ListType):
            return [self._value(kind.item_type, name) for _ in range(self.random.choice([0, 1, 1, 2, 5]))]
        if isinstance(kind, inspect.DictType):
            keys = self.random.sample(["ms", "a", "", "b"], self.random.randint(0, 3))
            return {key: self._value(kind.value_type) for key in keys}
        return self.random.choice(JUNK)


class Asker:
    """One connection that keeps the answers by id, and lets notifications pass."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.answers: dict[Any, list[dict[str, Any]]] = {}
        self.changed = asyncio.Event()
        self._task = asyncio.create_task(self._listen())

    async def until_answered(self, numbers: set[int], seconds: float) -> set[int]:
        """Who is still unanswered when the time is up."""
        try:
            async with asyncio.timeout(seconds):
                while numbers - self.answers.keys():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            pass
        return numbers - self.answers.keys()

    async def _listen(self) -> None:
        while True:
            message = json.loads(await self.wire.text())
            for one in message if isinstance(message, list) else [message]:
                if "method" not in one:
                    self.answers.setdefault(one["id"], []).append(one)
            self.changed.set()

    def close(self) -> None:
        self._task.cancel()
        self.wire.close()


@pytest.mark.parametrize("headers", [False, True], ids=["lines", "lsp"])
async def test_generated_requests_are_each_answered_once_and_never_by_an_internal_error(
    real: Harness, headers: bool
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    maker = Maker(seed)
    asked: dict[int, bytes] = {}
    asker = Asker(await Wire.open(real.paths.socket, headers))
    for first in range(0, REQUESTS // 2, 50):
        group = range(first, first + 50)
        asked |= {number: maker.call(number) for number in group}
        send(asker.wire, [asked[number] for number in group], maker.random)
        await settle_group(asker, set(group))
        maker.known = known_ids(asker.answers)
    check(asked, asker.answers)
    asker.close()
    assert (await real.call("admin.health"))["status"] == "ready"


def send(wire: Wire, bodies: list[bytes], chance: random.Random) -> None:
    """Some alone, some as a batch."""
    cut = chance.randint(0, len(bodies))
    for body in bodies[:cut]:
        wire.put(body)
    if bodies[cut:]:
        wire.put(b"[" + b",".join(bodies[cut:]) + b"]")


async def settle_group(asker: Asker, numbers: set[int]) -> None:
    """Calls that really wait are cancelled, and must then be answered too; so must the batch they hold up."""
    for number in await asker.until_answered(numbers, 0.1):
        body = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}
        asker.wire.put(json.dumps(body).encode())
    left = await asker.until_answered(numbers, 40)
    assert not left, f"never answered: {left}"


def known_ids(answers: dict[Any, list[dict[str, Any]]]) -> list[str]:
    found = []
    for one in answers.values():
        result = one[0].get("result")
        if isinstance(result, dict):
            found += [str(result[key]) for key in ("job_id", "subscription_id") if key in result]
    return found


def check(asked: dict[int, bytes], answers: dict[Any, list[dict[str, Any]]]) -> None:
    assert set(answers) == set(asked)
    for number, body in asked.items():
        (reply,) = answers[number]
        assert set(reply) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), (body[:500], reply)
        if "error" in reply:
            error = reply["error"]
            assert error["code"] != -32603, body[:2000]
            assert {"code", "retryable", "hint"} <= set(error["data"])
    codes = {reply["error"]["code"] if "error" in reply else 0 for (reply,) in answers.values()}
    assert codes >= {0, -32601, -32602, 4000, 4001}, "the requests reach too little"


async def test_requests_with_flipped_bytes_get_one_answer_each(real: Harness, home: Path) -> None:
    """Each on a connection of its own, since what is broken may be the id or the framing."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    maker = Maker(seed)
    for number in range(200):
        body = bytearray(without_waits(maker.call(number)))
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.choice([*range(10), *range(11, 256)])
        wire = await Wire.open(real.paths.socket)
        wire.send(bytes(body) + b"\n")
        wire.half_close()
        await at_most_one_answer(wire, bytes(body))
    assert (await real.call("admin.health"))["status"] == "ready"


def without_waits(body: bytes) -> bytes:
    """So that the daemon closes each connection as soon as it has answered."""
    for waits, does_not in ((b"job.wait", b"job.get"), (b"event.subscribe", b"event.list"), (b"wait_ms", b"reason")):
        body = body.replace(b'"%b"' % waits, b'"%b"' % does_not)
    return body


async def at_most_one_answer(wire: Wire, body: bytes) -> None:
    """None when a flipped byte made it a notification."""
    async with asyncio.timeout(10):
        answers = [json.loads(line) async for line in wire.reader]
    assert len(answers) <= 1, (body, answers)
    assert all(one.get("error", {}).get("code") != -32603 for one in answers), (body, answers)


async def test_one_request_of_everything_that_is_forbidden_is_stored_nowhere(real: Harness, home: Path) -> None:
    """Every field of a job, each given every kind of junk: nothing reaches the writer that the schema refuses."""
    wire = await Wire.open(real.paths.socket)
    fields = [field.encode_name for field in msgspec.structs.fields(METHODS[0].params)]
    bodies = [
        request(
            "job.plan", id=f"{field} {number}", **{"job_type": "semantica.noop", "subject_key": "s"} | {field: junk}
        )
        for field in fields
        for number, junk in enumerate(JUNK)
    ]
    for body in bodies:
        wire.put(body)
    replies = await wire.messages(len(bodies), 30)
    assert len({reply["id"] for reply in replies}) == len(bodies)
    internal = [reply["id"] for reply in replies if reply.get("error", {}).get("code") == -32603]
    assert internal == []
