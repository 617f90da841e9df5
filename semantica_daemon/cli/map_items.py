"""The items of `semantica map`: from the command line after `:::`, or from a stream, one for each line or NUL byte."""

import os
from array import array

from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.format import clean
from semantica_daemon.client.exit_codes import DATA

CHUNK = 65_536
LONGEST = 131_071  # bytes of an argument, on Linux
NO_DESCRIPTOR = -1


class Items:
    """Items in the order in which they are given. Empty lines of a stream are left out."""

    def __init__(self, words: list[str], descriptor: int = NO_DESCRIPTOR, separator: bytes = b"\n") -> None:
        """`words`: items that are known already. `descriptor`: where further ones are read from, until its end."""
        self.descriptor = descriptor
        self.count = 0
        self._separator = separator
        self._waiting = [os.fsencode(word) for word in words][::-1]
        self._rest = b""

    @property
    def waiting(self) -> int:
        """How many items `take` has without reading."""
        return len(self._waiting)

    @property
    def is_exhausted(self) -> bool:
        return not self._waiting and self.descriptor == NO_DESCRIPTOR

    def read(self) -> None:
        """Reads what is there; called when the descriptor can be read, or to wait for it."""
        try:
            data = os.read(self.descriptor, CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise CommandFailed(f"cannot read the items: {error.strerror}", exit_code=DATA) from None
        *found, self._rest = (self._rest + data).split(self._separator)
        if not data:
            found, self._rest, self.descriptor = [self._rest], b"", NO_DESCRIPTOR
        self._waiting = [item for item in found[::-1] if item] + self._waiting

    def known(self) -> list[str]:
        """The items that were given as words; of a stream the first one, for which it waits."""
        if self.descriptor == NO_DESCRIPTOR:
            return [os.fsdecode(item) for item in reversed(self._waiting)]
        first = self.first()
        return [] if first is None else [first]

    def first(self) -> str | None:
        """The first item, which is not taken; waits for it. None when there is none."""
        while not self._waiting and not self.is_exhausted:
            self.read()
        return _checked(self._waiting[-1], 1) if self._waiting else None

    def take(self) -> str:
        """The next of the items that are waiting."""
        self.count += 1
        return _checked(self._waiting.pop(), self.count)


def _checked(item: bytes, number: int) -> str:
    try:
        text = item.decode()
    except UnicodeDecodeError:
        shown = clean(os.fsdecode(item[:200]))
        raise CommandFailed(f"item {number} is not UTF-8: {shown}", "leave it out, or rename it", DATA) from None
    if len(item) > LONGEST or "\0" in text:
        problem = "has a NUL byte" if "\0" in text else f"has {len(item)} bytes, an argument may have {LONGEST}"
        hint = "with -0 items end with a NUL byte" if "\0" in text else "put it into a file and give the file's name"
        raise CommandFailed(f"item {number} {problem}", hint, DATA)
    return text


class Texts:
    """The text of each item by its number, as bytes in one buffer: 100,000 short ones take a few MB."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("Q", [0])
        self._others: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._ends) - 1

    def put(self, number: int, text: str) -> None:
        """The text of an item that an earlier command has numbered."""
        self._others[number] = text

    def append(self, text: str) -> int:
        """The number of the item, from 1."""
        self._bytes += text.encode()
        self._ends.append(len(self._bytes))
        return len(self)

    def size(self, number: int) -> int:
        """In bytes."""
        if number in self._others:
            return len(self._others[number].encode())
        return self._ends[number] - self._ends[number - 1]

    def __getitem__(self, number: int) -> str:
        if number in self._others:
            return self._others[number]
        return self._bytes[self._ends[number - 1] : self._ends[number]].decode()
