"""Structured logs on stderr: snake_case event names, values as keys; payloads and environments are never logged."""

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

from semantica_daemon.model.event import Recorded
from semantica_daemon.store.database import Committed

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
LOGGED_AT = {"debug": "debug", "info": "debug", "warn": "warning", "error": "warning"}


class Stderr:
    """What cannot be logged is lost, and counted with the next line: a full disk or a reader that has gone must not
    stop the daemon."""

    def __init__(self) -> None:
        self._lost = 0

    def write(self, text: str) -> int:
        try:
            if self._lost:
                sys.stderr.write(f'{{"event": "log_lines_lost", "lines": {self._lost}}}\n')
            sys.stderr.write(text)
            self._lost = 0
        except (OSError, ValueError):
            self._lost += 1
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()


def configure(level: str, form: str) -> None:
    pretty = form == "console" or (form == "auto" and sys.stderr.isatty())
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer: Any = plain if pretty else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            *([] if pretty else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, Stderr())),
        cache_logger_on_first_use=True,
    )


class EventLog:
    """One line for each committed event; the ordinary life of a job is debug, so that a busy daemon stays quiet."""

    def __init__(self, level: str) -> None:
        self._log = structlog.get_logger()
        self._all = level == "debug"

    def committed(self, committed: Committed) -> None:
        for recorded in committed.events:
            if self._all or recorded.event.level not in ("info", "debug") or recorded.event.job_id is None:
                self._line(recorded)

    def _line(self, recorded: Recorded) -> None:
        event = recorded.event
        level = LOGGED_AT[event.level] if event.job_id else "info"
        getattr(self._log, level)(
            event.event_type.replace(".", "_"),
            sequence=event.sequence, job_id=event.job_id, queue=recorded.queue, message=event.message[:200],
        )  # fmt: skip
