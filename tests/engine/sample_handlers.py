"""Handlers for the tests of the engine: the well-behaved, and those that misbehave in every way there is.

`doors` is how a test holds a handler in this process; in a process of its own, handlers get by with their payload.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon.engine.handlers import Context
from semantica_daemon.failures import Infra, Permanent, Transient

ROOT = Path(__file__).resolve().parents[2]


class Door:
    """A handler says `entered` when it is there, and stays until the door is `open`."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.told: list[Any] = []


doors: dict[str, Door] = {}


class Book(Struct, forbid_unknown_fields=True):
    title: str
    pages: list[int]


class NastyText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even its own name")


class OddClass(Exception):
    failure_class = ["permanent"]  # noqa: RUF012 - unhashable on purpose


class NastyClass(Exception):
    @property
    def failure_class(self) -> str:
        raise RuntimeError("no class at all")


class OddRetry(Exception):
    retry_after_ms = "soon"


def typed(ctx: Context, payload: Book) -> int:
    return len(payload.pages)


async def typed_async(ctx: Context, payload: Book) -> str:
    return payload.title


def typed_gathered(ctx: Context, payload: Book) -> list[Any]:
    return [payload.title, [one["title"] for one in ctx.gathered], ctx.gathered_dropped]


async def gathered(ctx: Context, payload: dict[str, Any]) -> list[Any]:
    return [payload, list(ctx.gathered)]


async def about(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    return {"job_id": ctx.job_id, "attempt": ctx.attempt, "cancelled": ctx.cancelled, "workspace": ctx.workspace}


async def see_parents(ctx: Context, payload: dict[str, Any]) -> list[Any]:
    return [[parent.job_id, parent.state, parent.result] for parent in ctx.parents]


def see_parents_in_thread(ctx: Context, payload: dict[str, Any]) -> list[Any]:
    return [[parent.job_id, parent.state, parent.result] for parent in ctx.parents]


async def hold(ctx: Context, payload: dict[str, Any]) -> str:
    """Stays at its door, and goes at once when it is cancelled."""
    door = doors[payload["door"]]
    door.entered.set()
    while not door.open.is_set():  # noqa: ASYNC110 - a door is for threads too
        await asyncio.sleep(0.001)
    return "held"


async def clean_up(ctx: Context, payload: dict[str, Any]) -> str:
    """Notices that it is cancelled, and still ends well."""
    try:
        await hold(ctx, payload)
    except asyncio.CancelledError:
        doors[payload["door"]].told.append(ctx.cancelled)
    return "cleaned up"


async def stubborn(ctx: Context, payload: dict[str, Any]) -> str:
    """Swallows every cancellation until its door opens."""
    door = doors.get(payload.get("door", ""), Door())
    door.entered.set()
    while not door.open.is_set():
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            door.told.append("swallowed")
    return "in my own time"


def deaf(ctx: Context, payload: dict[str, Any]) -> str:
    """Blocks its thread at the door; ctx.cancelled is nothing to it."""
    door = doors.get(payload.get("door", ""), Door())
    door.entered.set()
    door.open.wait()
    return "heard nothing"


def attentive(ctx: Context, payload: dict[str, Any]) -> str:
    """Blocks its thread until it is told to stop."""
    doors[payload["door"]].entered.set()
    while not ctx.cancelled:
        doors[payload["door"]].open.wait(0.001)
    return "left when asked"


def watchful(ctx: Context, payload: dict[str, Any]) -> str:
    """Blocks its thread until its door is open; told to stop before, it fails."""
    door = doors[payload["door"]]
    door.entered.set()
    while not door.open.wait(0.001):
        if ctx.cancelled:
            raise Transient("told to stop")
    return "watched"


def busy(ctx: Context, payload: dict[str, Any]) -> str:
    """Takes its time in a thread, whatever it is asked."""
    until = time.monotonic() + payload["ms"] / 1000
    while time.monotonic() < until:
        time.sleep(0.005)
    return "done all the same"


def _say(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    ctx.log("plain")
    ctx.log("with more", "warn", answer=42, where=["a", "b"])
    ctx.progress(10, phase="reading", items_total=7)
    ctx.progress(items_completed=3, message="three of seven")
    return {"said": 2}


def talk(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    return _say(ctx, payload)


async def talk_async(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    return _say(ctx, payload)


def chatter(ctx: Context, payload: dict[str, Any]) -> None:
    """Says a great deal, as fast as it can."""
    for number in range(payload.get("lines", 0)):
        ctx.log(f"line {number}")
    for number in range(payload.get("progress", 0)):
        ctx.progress(items_completed=number + 1)


def odd_words(ctx: Context, payload: dict[str, Any]) -> str:
    """Things that are text and numbers to Python, but not to everybody."""
    ctx.log("before")
    ctx.log("half a pair \ud800")
    ctx.log("in a value", value="\ud800")
    ctx.progress(message="\ud800", phase="\ud800")
    ctx.log("after")
    return "said it"


def huge_progress(ctx: Context, payload: dict[str, Any]) -> str:
    ctx.log("before")
    ctx.progress(items_completed=2**70, items_total=-(2**70))
    return "counted"


def unsayable(ctx: Context, payload: dict[str, Any]) -> list[str]:
    """What cannot be said is the handler's own error, raised where it is said."""
    refused = []
    for level, value in (("loud", 1), ("info", object())):
        try:
            ctx.log("x", level, value=value)
        except Exception as error:
            refused.append(type(error).__name__)
    return refused


FAILURES: dict[str, Callable[[], BaseException]] = {
    "plain": lambda: ValueError("plain"),
    "transient": lambda: Transient("later perhaps"),
    "permanent": lambda: Permanent("never"),
    "infra": lambda: Infra("the disk"),
    "system_exit": lambda: SystemExit(3),
    "keyboard": KeyboardInterrupt,
    "cancelled": asyncio.CancelledError,
    "stop_iteration": lambda: StopIteration("no more"),
    "stop_async_iteration": lambda: StopAsyncIteration("no more"),
    "generator_exit": GeneratorExit,
    "base": lambda: BaseException("the root of all"),
    "group": lambda: BaseExceptionGroup("several", [ValueError("one"), KeyboardInterrupt()]),
    "surrogate": lambda: ValueError("half a pair \ud800"),
    "validation": lambda: msgspec.ValidationError("what a server answered"),
    "nasty_text": NastyText,
    "odd_class": OddClass,
    "odd_retry": OddRetry,
    "nasty_class": NastyClass,
    "nul": lambda: ValueError("a\0b"),
    "long": lambda: ValueError("x" * 1_000_000),
}


def fail(ctx: Context, payload: dict[str, Any]) -> None:
    raise FAILURES[payload["how"]]()


async def fail_async(ctx: Context, payload: dict[str, Any]) -> None:
    raise FAILURES[payload["how"]]()


def ask_again(ctx: Context, payload: dict[str, Any]) -> None:
    ctx.retry(**payload)


async def ask_again_async(ctx: Context, payload: dict[str, Any]) -> None:
    ctx.retry(**payload)


def fail_chained(ctx: Context, payload: dict[str, Any]) -> None:
    try:
        raise KeyError("the first cause")
    except KeyError as error:
        raise Permanent("what came of it") from error


def deep(ctx: Context, payload: dict[str, Any]) -> None:
    deep(ctx, payload)


def _cyclic() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _nested(depth: int) -> list[Any]:
    nest: list[Any] = []
    for _ in range(depth):
        nest = [nest]
    return nest


THINGS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "number": lambda: 7,
    "nan": lambda: [float("nan"), float("inf")],
    "nul": lambda: "a\0b",
    "numbers": lambda: {3},
    "book": lambda: Book("a", [1]),
    "large": lambda: "x" * 9_000_000,
    "objects": lambda: {object()},
    "object": object,
    "cyclic": _cyclic,
    "surrogate": lambda: "half a pair \ud800",
    "surrogate_key": lambda: {"\ud800": 1},
    "tuple_key": lambda: {(1, 2): 3},
    "huge_int": lambda: 2**100,
    "endless_int": lambda: 1 << 100_000,
    "too_large": lambda: "x" * 20_000_000,
    "nested": lambda: _nested(5000),
    "coroutine": lambda: fail_async,
}


def give(ctx: Context, payload: dict[str, Any]) -> Any:
    return THINGS[payload["what"]]()


async def give_async(ctx: Context, payload: dict[str, Any]) -> Any:
    return THINGS[payload["what"]]()


async def watch_loop(ctx: Context, payload: dict[str, Any]) -> None:
    """Tells, in ms, the longest the loop has been away: by its thread's own time, and by the clock on the wall."""
    worst, longest = -1, -1
    while not ctx.cancelled:
        busy_before, before = time.thread_time(), time.monotonic()
        await asyncio.sleep(0.005)
        taken = int((time.thread_time() - busy_before) * 1000)
        late = int((time.monotonic() - before - 0.005) * 1000)
        if taken > worst or late > longest:
            worst, longest = max(worst, taken), max(longest, late)
            ctx.progress(items_completed=worst, items_total=longest)


HANDLERS = (
    see_parents, see_parents_in_thread,
    typed_gathered, gathered,
    typed, typed_async, about, hold, clean_up, stubborn, deaf, attentive, watchful, busy, talk, talk_async, chatter,
    odd_words, huge_progress, unsayable, fail, fail_async, ask_again, ask_again_async, fail_chained, deep, give,
    give_async, watch_loop,
)  # fmt: skip


def config(slots: int = 2, grace_ms: int = 5000, more: str = "") -> str:
    """A config file with every handler of this module, by its own name."""
    lines = [f'{handler.__name__} = "{__name__}:{handler.__name__}"' for handler in HANDLERS]
    top = f'handler_path = ["{ROOT}"]\n[daemon]\nmax_slots = {slots}\ngrace_ms = {grace_ms}\nlog_format = "json"\n'
    return top + more + "\n[handlers]\n" + "\n".join(lines) + "\n"
