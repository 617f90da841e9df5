"""How long, in the words of a message."""


def length(ms: int) -> str:
    """850 ms, 4 s, 1.5 s, 12 min, 5 h 12 min, 3 d 4 h."""
    if ms < 1000:
        return f"{max(0, ms)} ms"
    tenths = round(ms / 100)
    if tenths < 100 and tenths % 10:
        return f"{tenths / 10} s"
    seconds = round(ms / 1000)
    if seconds < 180:
        return f"{seconds} s"
    if seconds < 3570:
        return f"{round(seconds / 60)} min"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h" if hours % 24 else f"{hours // 24} d"
