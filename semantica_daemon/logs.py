"""Logging of the daemon, and the readiness line for --ready-fd. Logs are structured (snake_case event names, values as
keys) and go to stderr or a file; payloads and environments are never logged."""

import io
import logging
import os
import stat
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

import structlog

from semantica_daemon.model.event import StoredEvent
from semantica_daemon.store.database import CommitResult

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
LOGGED_AT = {"debug": "debug", "info": "debug", "warn": "warning", "error": "warning"}
MOST_BYTES = 10_000_000
MOST_OLD = 3
STDOUT, STDERR = 1, 2


class Stderr:
    """Lines that cannot be written are dropped, and counted in the next line that can: a full disk or a closed pipe
    must not stop the daemon."""

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


class LogFile(io.FileIO):
    """stdout and stderr of the process as one file. A file that has grown too large is renamed to FILE.1 (then FILE.2,
    FILE.3); a file that was removed is created again. If the file cannot be opened, the next line tries again."""

    def __init__(self, path: Path) -> None:
        super().__init__(STDERR, "wb", closefd=False)
        self._path = path
        self._renewing = threading.Lock()

    def write(self, data: Any) -> int:
        if _is_over(os.fstat(STDERR)):
            with self._renewing, suppress(OSError):
                if _is_over(found := os.fstat(STDERR)):  # still: another thread may have been faster
                    self._renew(found)
        return super().write(data) or 0

    def open(self) -> None:
        """Redirects descriptors 1 and 2 to the file, so that output of libraries goes there too."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _point_to(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))

    def _renew(self, ours: os.stat_result) -> None:
        """Renames the old files only if the path is still the file that is open: another process may have renamed it
        already."""
        if self._path.exists() and os.path.samestat(self._path.stat(), ours):
            for number in range(MOST_OLD - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
            os.replace(self._path, f"{self._path}.1")
        self.open()


def _is_over(found: os.stat_result) -> bool:
    return found.st_size >= MOST_BYTES or found.st_nlink == 0 or not stat.S_ISREG(found.st_mode)


def to_file(path: Path) -> None:
    """Redirects stdout and stderr to the file; a failure is reported once and does not stop the daemon."""
    log_file = LogFile(path.absolute())
    try:
        log_file.open()
    except OSError as error:
        sys.stderr.write(f"semanticad: cannot write its log: {error}\n")
        sys.stderr.flush()
        _point_to(os.open(os.devnull, os.O_WRONLY))
    sys.stdout = sys.stderr = io.TextIOWrapper(log_file, "utf-8", "backslashreplace", write_through=True)


def _point_to(descriptor: int) -> None:
    os.dup2(descriptor, STDOUT)
    os.dup2(descriptor, STDERR)
    if descriptor not in (STDOUT, STDERR):
        os.close(descriptor)


class ReadyPipe:
    """The descriptor of --ready-fd: gets one line, 'ready' or the reason."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def use(self, descriptor: int) -> None:
        """Keeps a copy that children do not inherit: a child that outlives the daemon would look like a daemon that is
        still starting."""
        self._descriptor = os.dup(descriptor)
        if descriptor > STDERR:
            os.close(descriptor)

    def send(self, line: str) -> None:
        """Writes the line and closes the descriptor; later calls do nothing."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        with suppress(OSError):
            os.write(descriptor, os.fsencode(line.replace("\n", " ") + "\n"))
        os.close(descriptor)


ready_pipe = ReadyPipe()


class Threshold:
    """The least level that is logged. A processor of structlog, since its loggers keep the level they began with."""

    def __init__(self) -> None:
        self.level = logging.INFO

    def __call__(self, logger: Any, method: str, event: Any) -> Any:
        if LEVELS.get(method, logging.ERROR) < self.level:
            raise structlog.DropEvent
        return event


threshold = Threshold()


def configure(level: str, form: str) -> None:
    set_level(level)
    pretty = form == "console" or (form == "auto" and sys.stderr.isatty())
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer: Any = plain if pretty else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            threshold,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            *([] if pretty else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, Stderr())),
        cache_logger_on_first_use=True,
    )


def set_level(level: str) -> None:
    threshold.level = LEVELS[level]


class EventLog:
    """Logs one line per committed event. Ordinary events of jobs are logged at level debug, so that a busy daemon logs
    little."""

    def __init__(self, level: str) -> None:
        self._log = structlog.get_logger()
        self.set_level(level)

    def set_level(self, level: str) -> None:
        self._all = level == "debug"

    def committed(self, committed: CommitResult) -> None:
        for stored in committed.events:
            if self._all or stored.event.level not in ("info", "debug") or is_news(stored):
                self._line(stored)

    def _line(self, stored: StoredEvent) -> None:
        event = stored.event
        level = "info" if event.level == "info" and is_news(stored) else LOGGED_AT[event.level]
        getattr(self._log, level)(
            event.event_type.replace(".", "_"),
            sequence=event.sequence, job_id=event.job_id, queue=stored.queue, message=event.message[:200],
        )  # fmt: skip


def is_news(stored: StoredEvent) -> bool:
    """Whether the event is rare enough for level info: events of queues, schedules and the daemon itself."""
    return stored.event.job_id is None and stored.event.event_type not in ("event.emitted", "schedule.fired")
