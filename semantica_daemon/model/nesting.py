"""How deep JSON is nested. SQLite's own JSON functions stop at 1,000 levels, and a decoder elsewhere may stop sooner:
what is deeper than MOST is refused when it comes in, not when it is claimed."""

import re
from itertools import accumulate

MOST = 500
STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
REST = bytes(byte for byte in range(256) if byte not in STEPS)


def too_deep(text: bytes) -> bool:
    """Only text with that many brackets is looked at more closely."""
    if text.count(b"[") + text.count(b"{") <= MOST:
        return False
    brackets = STRINGS.sub(b"", text).translate(None, REST)
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0) > MOST
