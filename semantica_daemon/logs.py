"""What the process says: structured logs on stderr or in a file (snake_case event names, values as keys; payloads and
environments are never logged), and one line to whoever has started it and waits."""

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


class LogFile(io.FileIO):
    """stdout and stderr of the process as one file. One that has grown too large is put aside as FILE.1 (then FILE.2,
    FILE.3), one that was removed is made again. What cannot be opened is tried again with the next line."""

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
        """Descriptors 1 and 2 become the file, so that whatever else writes there lands in it too."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _point_to(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))

    def _renew(self, ours: os.stat_result) -> None:
        """Old ones move on only if the file is still the one we write to: another process may have done it."""
        if self._path.exists() and os.path.samestat(self._path.stat(), ours):
            for number in range(MOST_OLD - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
            os.replace(self._path, f"{self._path}.1")
        self.open()


def _is_over(found: os.stat_result) -> bool:
    return found.st_size >= MOST_BYTES or found.st_nlink == 0 or not stat.S_ISREG(found.st_mode)


def to_file(path: Path) -> None:
    """From now on stdout and stderr go there. A log that cannot be written is told of once, and keeps nobody."""
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
    """Whoever has started the process and waits on a descriptor of it (--ready-fd) for one line: ready, or why not."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def use(self, descriptor: int) -> None:
        """A copy, which children do not inherit: one that lives on would look like a daemon that still starts."""
        self._descriptor = os.dup(descriptor)
        if descriptor > STDERR:
            os.close(descriptor)

    def send(self, line: str) -> None:
        """Once; the descriptor is closed with it."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        with suppress(OSError):
            os.write(descriptor, os.fsencode(line.replace("\n", " ") + "\n"))
        os.close(descriptor)


ready_pipe = ReadyPipe()


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

    def committed(self, committed: CommitResult) -> None:
        for recorded in committed.events:
            if self._all or recorded.event.level not in ("info", "debug") or is_news(recorded):
                self._line(recorded)

    def _line(self, recorded: StoredEvent) -> None:
        event = recorded.event
        level = "info" if event.level == "info" and is_news(recorded) else LOGGED_AT[event.level]
        getattr(self._log, level)(
            event.event_type.replace(".", "_"),
            sequence=event.sequence, job_id=event.job_id, queue=recorded.queue, message=event.message[:200],
        )  # fmt: skip


def is_news(recorded: StoredEvent) -> bool:
    """What does not happen all the time: of queues, schedules and the daemon itself."""
    return recorded.event.job_id is None and recorded.event.event_type not in ("event.emitted", "schedule.fired")
