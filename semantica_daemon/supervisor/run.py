"""One run in the supervisor: its main process, the pipes or the terminal that carry its output, and its log."""

import fcntl
import os
import struct
import termios
from array import array

from semantica_daemon.processes.table import ms_since_boot, start_time
from semantica_daemon.supervisor.file_limit import FileLimit
from semantica_daemon.supervisor.log import STDERR, STDOUT, Log
from semantica_daemon.supervisor.messages import NO_READER, Exited, Spawned, SpawnRequest, Window
from semantica_daemon.supervisor.spawn import SpawnError, explain, spawn

CHUNK = 65_536
AVAILABLE = array("i", [0])  # what FIONREAD fills in
EXPECTED_READER = -1
END_OF_TYPING = b"\4\4"  # Ctrl-D twice: the first one may only end a line
END_OF_KEYS = b"\x16\4\4" + END_OF_TYPING  # first a quoted Ctrl-D: a read that began in raw mode ends with a key only
MOST_IN_TERMINAL = 1_000_000  # the kernel does not report how much output a terminal holds
LOCAL_FLAGS, CHARACTERS = 3, 6  # in what tcgetattr returns
WINDOW_SIZE = struct.Struct("HHHH")
Streams = tuple[int, int, int]
DEV_NULL = os.open(os.devnull, os.O_RDONLY)


class Run:
    """The supervisor keeps the writing ends of both pipes open until the run is over. So a pipe is readable only if
    there is output: a process that closes its streams or exits wakes nothing up."""

    status: int | None = None  # of the main process, once it has ended
    sent_signal = 0  # the latest signal to all its processes
    watch: tuple[int, str] | None = None  # the log size to report, and the job id
    report_due = 0.0  # when its Spawned is sent at the latest
    stdin = -1  # the writing end of its stdin, if that is a pipe
    _child_stdin = -1  # closed when the process has it
    _handles: tuple[int, ...] = ()
    cgroup = ""

    def __init__(self, request: SpawnRequest, tag: int, limit: FileLimit) -> None:
        """Raises SpawnError, and then leaves nothing open."""
        self.request = request
        self.run_id = request.run_id
        self.tag = tag
        self.log = Log(request.log, request.log_bytes)
        self._readers: dict[int, int] = {}
        if request.control is not None:
            self.cgroup = request.control[0]
        if request.is_followed:
            self._readers[EXPECTED_READER] = 0
            self.log.keep_unread(0)
        self.signalled: set[tuple[int, int]] = set()  # pid and start time of each process it was sent to
        try:
            streams = self._open_pipes() if request.window is None else self._open_terminal(request.window)
            self.started_at = ms_since_boot()  # or up to a clock tick later: `spawned` looks it up
            self.pid = spawn(request, streams, limit)
        except (OSError, ValueError) as error:
            self.close_pipes()
            self.close_stdin()
            raise explain(request, error) from error
        except SpawnError:
            self.close_pipes()
            self.close_stdin()
            raise
        finally:
            if self._child_stdin >= 0:
                os.close(self._child_stdin)

    def _open_pipes(self) -> Streams:
        """The stdin, stdout and stderr of the process."""
        self._handles = os.pipe()
        self._handles += os.pipe()
        out, out_end, err, err_end = self._handles
        self.pipes = {out: STDOUT, err: STDERR}
        if self.request.stdin is not None:
            self._child_stdin = _file_with(self.request.stdin)
        elif self.request.has_input:
            self._child_stdin, self.stdin = os.pipe()
            os.set_blocking(self.stdin, False)
        return DEV_NULL if self._child_stdin < 0 else self._child_stdin, out_end, err_end

    def _open_terminal(self, window: Window) -> Streams:
        """One terminal for all three. Without a caller that types, reading from it ends at once."""
        ours, theirs = os.openpty()
        self._handles = (ours, theirs)
        self.pipes = {ours: STDOUT}
        self.resize(window)
        os.set_blocking(ours, False)
        if self.request.has_input:
            self.stdin = os.dup(ours)
        else:
            os.write(ours, END_OF_TYPING)
        return theirs, theirs, theirs

    def resize(self, window: Window) -> None:
        """Sets the size of its terminal; the kernel sends SIGWINCH."""
        for terminal in self.pipes if self.request.window is not None else ():
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, WINDOW_SIZE.pack(*window, 0, 0))

    def leave_raw_mode(self) -> bool:
        """Whether its terminal was in raw mode, in which Ctrl-D is a key like others: END_OF_KEYS then ends reads."""
        if self.request.window is None:
            return False
        try:
            settings = termios.tcgetattr(self.stdin)
            if settings[LOCAL_FLAGS] & termios.ICANON:
                return False
            settings[LOCAL_FLAGS] |= termios.ICANON | termios.IEXTEN
            settings[CHARACTERS][termios.VLNEXT], settings[CHARACTERS][termios.VEOF] = b"\x16", b"\4"
            termios.tcsetattr(self.stdin, termios.TCSANOW, settings)
        except termios.error:  # a terminal that no longer works
            return False
        return True

    def close_stdin(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def spawned(self) -> Spawned:
        return Spawned(self.run_id, self.pid, start_time(self.pid, self.started_at))

    def exited(self, with_process: bool) -> Exited:
        """`with_process`: no Spawned was sent. The exact start time does not matter for a process that is gone."""
        code = os.waitstatus_to_exitcode(self.status or 0)  # the negative number of a signal
        return Exited(
            self.run_id, self.pid if with_process else None, self.started_at if with_process else None,
            None if code < 0 else code, -code if code < 0 else None,
            self.log.dropped, self.log.error, os.access(self.request.result, os.F_OK, follow_symlinks=False),
            self.log.size,
        )  # fmt: skip

    def pump(self, pipe: int) -> int:
        """Moves one chunk of output from the pipe to the log, and returns its length."""
        os.set_blocking(pipe, False)  # the job may open the pipe too and read it empty
        try:
            data = os.read(pipe, CHUNK)
        except OSError:  # there is none now, or the last process that had the terminal has ended
            return 0
        self.log.write(self.pipes[pipe], data)
        return len(data)

    def note_reader(self, reader: int, offset: int) -> None:
        """`offset`: of a ReadRequest."""
        self._readers.pop(EXPECTED_READER, None)
        self._readers[reader] = offset
        if offset == NO_READER:
            del self._readers[reader]
        self.log.keep_unread(min(self._readers.values(), default=None))

    def forget_readers(self) -> None:
        self._readers.clear()
        self.log.keep_unread(None)

    def drain(self) -> None:
        """Logs what is in the pipes now and no more: a process that outlives the run may go on writing for ever."""
        for pipe in self.pipes:
            fcntl.ioctl(pipe, termios.FIONREAD, AVAILABLE)
            left = AVAILABLE[0] if self.request.window is None else MOST_IN_TERMINAL
            while left > 0 and (moved := self.pump(pipe)):
                left -= moved

    def close_pipes(self) -> None:
        for handle in self._handles:
            os.close(handle)
        self._handles = ()

    def close_writing_ends(self) -> None:
        """The pipes then end when the last process that has them does."""
        for handle in self._handles:
            if handle not in self.pipes:
                os.close(handle)
        self._handles = tuple(self.pipes)
        for pipe in self.pipes:
            os.set_blocking(pipe, False)


def _file_with(text: str) -> int:
    """A file and no pipe: a process may leave it unread without blocking the supervisor."""
    handle = os.memfd_create("stdin") if hasattr(os, "memfd_create") else _unnamed_file()
    left = memoryview(text.encode("utf-8", "surrogateescape"))
    while left:
        left = left[os.write(handle, left) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _unnamed_file() -> int:
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"semantica-stdin-{os.getpid()}")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    return handle
