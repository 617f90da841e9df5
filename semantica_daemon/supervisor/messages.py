"""The messages between the daemon and the supervisor, their framing, and the format of the log file.

`engine/supervisors` is the daemon's end, `supervisor/channel` the supervisor's. A frame is a length in four bytes and a
marshalled message, a tuple of its kind and its fields; both ends run the same interpreter.
"""

import marshal
import struct
from typing import Any, Literal, NamedTuple, get_args

STREAMS_SUFFIX = ".streams"
TAIL_SUFFIX = ".tail"
STREAM_RECORD = struct.Struct("<Q")  # twice the offset from which it holds, plus one for stderr
NO_READER = -1
Window = tuple[int, int]
LENGTH = struct.Struct("<I")
LENGTH_BYTES = LENGTH.size
MARSHAL_VERSION = 2  # later ones look for objects that occur twice, and a message has none


class SpawnRequest(NamedTuple):
    """The supervisor makes the folder `workspace`; `log`, `result` and the folder `output` are inside it. `control` has
    the fields of a Control (`controlled_spawn`); None for a command without a cgroup and limits."""

    run_id: str
    argv: list[str]
    cwd: str
    env: dict[bytes, bytes]
    umask: int
    stdin: str | None
    workspace: str
    output: str
    result: str
    log: str
    log_bytes: int
    keep_leftovers: bool
    is_followed: bool  # a reader will ask for the output from its first byte on
    has_input: bool  # its stdin comes by InputRequests
    window: Window | None  # rows and columns of its terminal; None: it has none
    control: tuple[str, int | None, int | None, int | None] | None = None


class SignalRequest(NamedTuple):
    """Send this signal to every process of the run."""

    run_id: str
    number: int


class WatchLogRequest(NamedTuple):
    """Reply once with LogGrew when the log is longer than `size` bytes, or at once if the run is over."""

    run_id: str
    job_id: str
    size: int


class ReadRequest(NamedTuple):
    """The reader has all output before `offset` and will ask for the rest; NO_READER: it is gone."""

    run_id: str
    reader: int
    offset: int


class InputRequest(NamedTuple):
    """Write this to the stdin of the run; `is_last`: then close it. The daemon sends the next one after InputTaken; the
    end of the input does not wait for it. With a `window` there is no data and no reply: the terminal has this size."""

    run_id: str
    data: bytes
    is_last: bool
    window: Window | None = None


class Spawned(NamedTuple):
    """`started_at`: ms since the boot."""

    run_id: str
    pid: int
    started_at: int


class SpawnFailed(NamedTuple):
    """`part`: what failed; `retryable`: a later try may succeed."""

    run_id: str
    message: str
    part: Literal["command", "cwd", "cgroup", "workspace", "supervisor"]
    errno: int
    retryable: bool


class LeftoversFound(NamedTuple):
    """The main process has ended, other processes of the run have not; they are being ended."""

    run_id: str


class LogGrew(NamedTuple):
    run_id: str
    job_id: str


class InputTaken(NamedTuple):
    """The input is in the pipe of the run's stdin. `is_open`: more can be sent."""

    run_id: str
    is_open: bool


class Exited(NamedTuple):
    """The run is over. `pid` and `started_at` are set if no Spawned was sent before; `code` or `signal` is None.
    `dropped`: bytes of output missing in the log; `log_error`: why; `has_result`: the result file exists; `log_size`:
    bytes of the whole output."""

    run_id: str
    pid: int | None
    started_at: int | None
    code: int | None
    signal: int | None
    dropped: int
    log_error: str
    has_result: bool
    log_size: int


Request = SpawnRequest | SignalRequest | WatchLogRequest | ReadRequest | InputRequest
Report = Spawned | SpawnFailed | LeftoversFound | LogGrew | InputTaken | Exited
KINDS: tuple[type[Any], ...] = (*get_args(Request), *get_args(Report))
new_tuple = tuple.__new__  # both ends are of one version, so the number of fields needs no check
NUMBER_OF = {kind: number for number, kind in enumerate(KINDS)}


def encode(message: Request | Report) -> bytes:
    """One frame."""
    body = marshal.dumps((NUMBER_OF[type(message)], tuple(message)), MARSHAL_VERSION)
    return LENGTH.pack(len(body)) + body


class Decoder:
    """Cuts a byte stream into messages. A request with megabytes of stdin arrives in many parts; appending each to a
    bytearray costs no more than joining them once."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes | bytearray) -> list[Any]:
        """The messages of all frames that are complete by now."""
        received = self._received
        received += data
        messages: list[Any] = []
        while len(received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + LENGTH.unpack_from(received)[0]
            if len(received) < end:
                break
            kind, fields = marshal.loads(received[LENGTH_BYTES:end])
            messages.append(new_tuple(KINDS[kind], fields))
            del received[:end]
        return messages
