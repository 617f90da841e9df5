"""Bytes to messages: both framings, told apart by the first byte, and every limit on what may come."""

import re

from semantica_daemon.errors import InvalidRequest, ParseFailed, Refusal

MAX_MESSAGE = 16 * 1024 * 1024
MAX_HEADER = 8 * 1024
BLANK = b" \t\r\n"
LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*(\d{1,12})[ \t]*$", re.IGNORECASE | re.MULTILINE)


class Fatal(Exception):
    """The connection cannot go on: `refusal` is said, then it is closed."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Framing:
    """Undecided until the first byte that is not blank; what was fed and not yet taken is `buffer`."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.headers = False
        self._decided = False
        self._scanned = 0
        self._length: int | None = None

    @property
    def partial(self) -> bool:
        """Half a frame is waiting for its rest."""
        return bool(self.buffer) or self._length is not None

    def feed(self, data: bytes | memoryview) -> None:
        self.buffer += data
        if not self._decided:
            self._decide()

    def next(self) -> bytes | None:
        """The next whole message; None when more bytes are needed."""
        if not self._decided:
            return None
        return self._next_framed() if self.headers else self._next_line()

    def last(self) -> bytes | None:
        """At the end of input: a last line without its newline."""
        rest = bytes(self.buffer).strip() if not self.headers else b""
        self.buffer.clear()
        return rest or None

    def wrap(self, message: bytes) -> bytes:
        if self.headers:
            return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)
        return message + b"\n"

    def _decide(self) -> None:
        stripped = self.buffer.lstrip(BLANK)
        if not stripped:
            self.buffer.clear()
            return
        first = stripped[:1]
        if first not in b"{[cC":
            raise Fatal(_neither(bytes(stripped[:8])))
        self.headers = first in b"cC"
        self._decided = True
        self.buffer = stripped

    def _next_line(self) -> bytes | None:
        while True:
            end = self.buffer.find(b"\n", self._scanned)
            if end > MAX_MESSAGE or (end < 0 and len(self.buffer) > MAX_MESSAGE):
                raise Fatal(_too_large())
            if end < 0:
                self._scanned = len(self.buffer)
                return None
            line = bytes(self.buffer[:end]).strip()
            del self.buffer[: end + 1]
            self._scanned = 0
            if line:
                return line

    def _next_framed(self) -> bytes | None:
        if self._length is None:
            self._length = self._header()
        if self._length is None or len(self.buffer) < self._length:
            return None
        body = bytes(self.buffer[: self._length]).strip()
        del self.buffer[: self._length]
        self._length = None
        return body

    def _header(self) -> int | None:
        end = self.buffer.find(b"\r\n\r\n", 0, MAX_HEADER + 4)
        if end < 0:
            if len(self.buffer) > MAX_HEADER:
                raise Fatal(ParseFailed(f"the header block is longer than {MAX_HEADER} bytes", "send Content-Length"))
            return None
        found = LENGTH.search(bytes(self.buffer[:end]).replace(b"\r\n", b"\n"))
        if found is None:
            raise Fatal(ParseFailed("a header block without a Content-Length", "send Content-Length: N, CR LF, CR LF"))
        del self.buffer[: end + 4]
        length = int(found[1])
        if length > MAX_MESSAGE:
            raise Fatal(_too_large())
        return length


def _too_large() -> Refusal:
    return InvalidRequest(f"the message is larger than {MAX_MESSAGE} bytes", "send less, or name a file")


def _neither(start: bytes) -> Refusal:
    if start[:4] in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC"):
        return ParseFailed(
            "this is JSON-RPC on a socket, not HTTP",
            "one JSON document per line, or use the command line: semantica rpc METHOD [JSON]",
        )
    return ParseFailed(
        "neither JSON nor a Content-Length header", "one JSON document per line, or LSP framing; begin with { [ or C"
    )
