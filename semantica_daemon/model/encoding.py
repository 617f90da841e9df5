"""Makes a lack of memory an error and not a crash: encodes large values as JSON, and checks that memory can be
allocated."""

from typing import Any

import msgspec

_encode_into = msgspec.json.Encoder().encode_into


def encode_large(value: Any) -> bytearray:
    """Raises MemoryError when it does not fit; msgspec's `encode` ends the process then, by a segmentation fault."""
    text = bytearray()
    _encode_into(value, text)
    return text


def check_memory(size: int) -> None:
    """Raises MemoryError unless so many bytes can be allocated now. Nothing is written to them, so it costs little."""
    bytes(size)
