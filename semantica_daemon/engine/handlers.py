"""IN_PROCESS handlers: loads them, defines the `ctx` that each handler gets, and has the three built-in ones."""

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from semantica_daemon.engine.parents import ParentJob
from semantica_daemon.engine.reporter import LONGEST_LINE, Reporter, storable
from semantica_daemon.errors import StartRefused
from semantica_daemon.failures import Retry
from semantica_daemon.model.admission import no_handler
from semantica_daemon.model.event import LEVELS
from semantica_daemon.model.nesting import MOST, too_deep
from semantica_daemon.store.writes.report import Line
from semantica_daemon.wire.run import Progress
from semantica_daemon.wire.types import Ms

GROUP = "semantica.handlers"


class Context:
    """The `ctx` of a handler: its run, and methods to report on it. Every method may be called from any thread.
    `gathered`: the payloads that a job with `gather` stands for besides its own, oldest first; `gathered_dropped`: how
    many more there were."""

    gathered: Sequence[dict[str, Any]] = ()
    gathered_dropped = 0

    parents: Sequence[ParentJob] = ()
    """The jobs that had to be DONE before this one, with their results, in the order in which they were named."""

    def __init__(self, job_id: str, attempt: int, reporter: Reporter) -> None:
        self.job_id = job_id
        self.attempt = attempt
        self.workspace: str | None = None
        self.cancelled = False
        """True once the run must stop: the handler should return soon."""
        self._reporter = reporter

    def progress(
        self,
        percent: float | None = None,
        phase: str | None = None,
        items_completed: int | None = None,
        items_total: int | None = None,
        message: str | None = None,
    ) -> None:
        """Reports progress. Reports that come faster than they can be stored are merged; the newest values win."""
        fields = {"percent": percent, "phase": _text(phase), "items_completed": items_completed}
        fields |= {"items_total": items_total, "message": _text(message)}
        self._reporter.progress(msgspec.convert(fields, Progress))

    def log(self, message: str, level: str = "info", **payload: Any) -> None:
        if level not in LEVELS:
            raise ValueError(f"level {level!r} is none of {', '.join(LEVELS)}")
        fields = {_text(key): _text(value) for key, value in payload.items()}
        encoded = msgspec.json.encode(fields)
        msgspec.json.decode(encoded)  # a Raw value goes through the encoder unread
        if len(encoded) > LONGEST_LINE or too_deep(encoded):
            raise ValueError(f"the payload is longer than {LONGEST_LINE} bytes or nested deeper than {MOST} levels")
        self._reporter.line(Line(storable(str(message)), level, msgspec.Raw(encoded)))

    def retry(self, after: float | None = None, message: str = "the handler asked for a retry") -> NoReturn:
        """Ends the run as failed, by an exception. The job is retried `after` so many seconds, at most a day, if an
        attempt is left; without `after`, after its backoff."""
        raise Retry(_text(message), after)


def _text(value: Any) -> Any:
    """Replaces characters that UTF-8 cannot encode, which occur in file names."""
    return storable(value) if isinstance(value, str) else value


class Handler(Struct, frozen=True):
    function: Callable[[Context, Any], Any]
    is_async: bool
    is_typed: bool
    payload: "msgspec.json.Decoder[Any]"


class Handlers:
    def __init__(self, found: dict[str, Handler]) -> None:
        self._found = found

    def payload_decoders(self) -> dict[str, "msgspec.json.Decoder[Any] | None"]:
        """The decoder of each typed payload, for admission; None where any object is accepted."""
        return {name: handler.payload if handler.is_typed else None for name, handler in self._found.items()}

    def get(self, job_type: str) -> Handler:
        handler = self._found.get(job_type)
        if handler is None:
            raise no_handler(job_type, self._found)
        return handler


def load(configured: dict[str, str], search_path: list[str]) -> Handlers:
    """The built-in handlers, then entry points of installed packages, then the config; a later one wins."""
    sys.path[:0] = [folder for folder in search_path if folder not in sys.path]
    found = {name: _handler(name, function) for name, function in BUILT_IN.items()}
    for entry in entry_points(group=GROUP):
        found[entry.name] = _handler(entry.name, _import(entry.name, entry.value))
    for job_type, target in configured.items():
        found[job_type] = _handler(job_type, _import(job_type, target))
    return Handlers(found)


def _import(job_type: str, target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise StartRefused(
            f"handler {job_type} = {target!r} cannot be loaded ({type(error).__name__}: {error}): "
            'write it as "package.module:function"; folders outside site-packages go into handler_path'
        ) from error
    return found


def _handler(job_type: str, function: Any) -> Handler:
    try:
        taken = list(inspect.signature(function).parameters.values())
        if len(taken) < 2:
            raise TypeError(f"it takes {len(taken)} argument{'' if len(taken) == 1 else 's'}")
        hints = inspect.get_annotations(function, eval_str=True) if inspect.isroutine(function) else {}
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError) as error:
        raise StartRefused(f"handler {job_type} must be a function of (ctx, payload): {error}") from error
    hint = hints.get(taken[1].name)
    typed = isinstance(hint, type) and issubclass(hint, Struct)
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(hint if typed else dict[str, Any])
    called = function if inspect.isroutine(function) else type(function).__call__
    return Handler(function, inspect.iscoroutinefunction(called), typed, decoder)


async def noop(ctx: Context, payload: dict[str, Any]) -> None:
    """Does nothing."""


async def echo(ctx: Context, payload: dict[str, Any]) -> dict[str, Any]:
    """Returns its payload."""
    return payload


class Sleep(Struct, forbid_unknown_fields=True):
    ms: Ms


async def sleep(ctx: Context, payload: Sleep) -> None:
    """Sleeps for `ms`."""
    await asyncio.sleep(payload.ms / 1000)


BUILT_IN: dict[str, Callable[[Context, Any], Any]] = {
    "semantica.noop": noop,
    "semantica.echo": echo,
    "semantica.sleep": sleep,
}
