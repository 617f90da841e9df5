"""The nesting depth of JSON. SQLite's JSON functions stop at 1,000 levels, and a decoder elsewhere may stop sooner:
deeper values than MOST are refused when they arrive, not when their job is claimed."""

from itertools import accumulate

MOST = 500
STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
REST = bytes(byte for byte in range(256) if byte not in STEPS)


def too_deep(text: bytes) -> bool:
    """Counts levels only in text that has enough brackets."""
    if text.count(b"[") + text.count(b"{") <= MOST:
        return False
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(bare.split(b'"')[::2]).translate(None, REST)  # every second part is inside a string
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0) > MOST
