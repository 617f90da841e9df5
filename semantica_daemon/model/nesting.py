"""How deep JSON is nested. SQLite's own JSON functions stop at 1,000 levels, and a decoder elsewhere may stop sooner:
what is deeper than MOST is refused when it comes in, not when it is claimed."""

from itertools import accumulate

MOST = 500
STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
REST = bytes(byte for byte in range(256) if byte not in STEPS)


def too_deep(text: bytes) -> bool:
    """Only text with that many brackets is looked at more closely."""
    if text.count(b"[") + text.count(b"{") <= MOST:
        return False
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(bare.split(b'"')[::2]).translate(None, REST)  # every second part is inside a string
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0) > MOST
