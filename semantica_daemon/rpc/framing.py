"""Bytes to messages and back: both framings, recognised by the first byte, and the size limits."""

import re

from semantica_daemon.errors import InvalidRequest, OutOfMemory, ParseFailed, Refusal

Message = bytes | bytearray
MAX_MESSAGE = 16 * 1024 * 1024
MAX_HEADER = 8 * 1024
BLANK = b" \t\r\n"
LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*(\d{1,12})[ \t]*$", re.IGNORECASE | re.MULTILINE)
CHARSET = re.compile(rb"^content-type[ \t]*:.*?;[ \t]*charset[ \t]*=[ \t]*\"?([^\";\s]*)", re.IGNORECASE | re.MULTILINE)
UTF_8 = (b"utf-8", b"utf8")  # the second by LSP clients of old
LSP_HEAD = b"Content-Length: %d\r\n\r\n"
HTTP_METHOD = re.compile(rb"(GET|POST|PUT|HEAD|OPTIONS|DELETE|PATCH|TRACE|PRI) ")
HTTP_HEAD = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
)


class Framing:
    """Undecided until the first byte that is not blank; then lines, or messages with headers. After a refusal the
    connection cannot continue."""

    def __init__(self) -> None:
        self.headers = False
        self._head = b""  # of each message that is sent; with an empty one, messages are lines
        self._decided = False
        self._rest = bytearray()  # bytes after the last whole message
        self._messages: list[bytes] = []
        self._length: int | None = None  # of the body whose header has been read
        self._refusal: Refusal | None = None

    @property
    def partial(self) -> bool:
        """Whether a message has begun whose rest is still to come."""
        return bool(self._rest) or self._length is not None

    def feed(self, data: bytes | memoryview) -> None:
        """Splits all whole messages off at once, since clients send many requests together. Bytes that
        come after a message that was too large are ignored."""
        if self._refusal is not None:
            return
        scanned = len(self._rest)
        try:
            self._rest += data
            if not self._decided:
                scanned = 0
                self._decide()
            if self.headers:
                self._split_framed()
            elif self._decided:
                self._split_lines(scanned)
        except (Refusal, MemoryError) as error:
            refusal = error if isinstance(error, Refusal) else OutOfMemory()
            self._refusal = refusal.with_traceback(None)  # its frames hold megabytes
            self._rest.clear()

    def take(self, most: int) -> list[bytes]:
        """Up to `most` whole messages. Raises a Refusal when the next one breaks a limit."""
        if self._refusal is not None and not self._messages:
            raise self._refusal
        found, self._messages = self._messages[:most], self._messages[most:]
        return found

    def last(self) -> bytes | None:
        """At the end of the input: the last line, if it has no newline."""
        rest = bytes(self._rest).strip() if not self.headers else b""
        self._rest.clear()
        return rest or None

    def wrap(self, messages: list[Message]) -> bytes:
        if self._head:
            return b"".join([part for one in messages for part in (self._head % len(one), one)])
        messages.append(b"")
        return b"\n".join(messages)

    def _decide(self) -> None:
        stripped = self._rest.lstrip(BLANK)
        if not stripped:
            self._rest.clear()
            return
        first = stripped[:1]
        if HTTP_METHOD.match(stripped):
            self._head = HTTP_HEAD
            hint = "use the command line: semantica rpc METHOD [JSON]; or send one JSON document per line"
            raise ParseFailed("this is JSON-RPC on a socket, not HTTP", hint)
        if first not in b"{[cC":
            hint = "one JSON document per line, or LSP framing; begin with { [ or C"
            raise ParseFailed("neither JSON nor a Content-Length header", hint)
        self.headers = first in b"cC"
        self._head = LSP_HEAD if self.headers else b""
        self._decided = True
        self._rest = stripped

    def _split_lines(self, scanned: int) -> None:
        """`scanned`: the bytes at the beginning that hold no newline."""
        end = self._rest.rfind(b"\n", scanned)
        if end >= 0:
            for line in bytes(self._rest[:end]).split(b"\n"):
                if len(line) > MAX_MESSAGE:
                    raise _too_large()
                if stripped := line.strip():
                    self._messages.append(stripped)
            del self._rest[: end + 1]
        if len(self._rest) > MAX_MESSAGE:
            raise _too_large()

    def _split_framed(self) -> None:
        while (message := self._next_framed()) is not None:
            self._messages.append(message)

    def _next_framed(self) -> bytes | None:
        if self._length is None:
            self._length = self._header()
        if self._length is None or len(self._rest) < self._length:
            return None
        body = bytes(self._rest[: self._length]).strip()
        del self._rest[: self._length]
        self._length = None
        return body

    def _header(self) -> int | None:
        end = self._rest.find(b"\r\n\r\n", 0, MAX_HEADER + 4)
        if end < 0:
            if len(self._rest) > MAX_HEADER:
                raise ParseFailed(f"the header block is longer than {MAX_HEADER} bytes", "send Content-Length")
            return None
        block = bytes(self._rest[:end]).replace(b"\r\n", b"\n")
        charset = CHARSET.search(block)
        if charset is not None and charset[1].lower() not in UTF_8:
            raise ParseFailed(f"the charset {charset[1][:40].decode('latin-1')} is not supported", "send UTF-8")
        found = LENGTH.search(block)
        if found is None:
            raise ParseFailed("a header block without a Content-Length", "send Content-Length: N, CR LF, CR LF")
        length = int(found[1])
        if length > MAX_MESSAGE:
            raise _too_large()
        del self._rest[: end + 4]
        return length


def _too_large() -> Refusal:
    return InvalidRequest(f"the message is larger than {MAX_MESSAGE} bytes", "send less, or name a file")
