"""Rates and limits of concurrency keys on the command line: 10/1m, and repo:*=2 or api:*=2,10/1m."""

from semantica_daemon.cli.command import Json
from semantica_daemon.cli.repeat import interval
from semantica_daemon.cli.times import duration

NO_RATE = {"count": 0, "per_ms": 1}


def rate(text: str) -> Json:
    """10/1m or 10/m; none: no rate."""
    if text == "none":
        return dict(NO_RATE)
    count, slash, time = text.partition("/")
    if not slash or not count.isdecimal():
        raise ValueError(f"{text!r} is not a rate: write 10/1m (10 starts in any minute), or none")
    return {"count": int(count), "per_ms": duration(time if time[:1].isdecimal() else f"1{time}")}


def key_limit(text: str) -> tuple[str, Json | None]:
    """PATTERN=N, PATTERN=N,RATE, PATTERN=RATE, or PATTERN=none."""
    pattern, equals, value = text.rpartition("=")
    if not equals or not pattern:
        raise ValueError(f"{text!r} is not a limit of keys: write 'repo:*=2', 'api:*=2,10/1m' or 'repo:*=none'")
    if value == "none":
        return pattern, None
    rule: Json = {}
    for part in value.split(","):
        if part.isdecimal():
            rule["limit"] = int(part)
        else:
            rule["rate"] = rate(part)
    return pattern, rule


def rate_text(given: Json) -> str:
    per_ms = given["per_ms"]
    return f"{given['count']}/{f'{per_ms}ms' if per_ms % 1000 else interval(per_ms)}"


def texts(queue: Json) -> list[str]:
    """The rate and the limits of keys of a queue, as they are given."""
    found = [] if queue["rate"] is None else [rate_text(queue["rate"])]
    for pattern, rule in queue["keys"].items():
        of_rate = "" if rule["rate"] is None else f",{rate_text(rule['rate'])}"
        found.append(f"{pattern}={rule['limit']}{of_rate}")
    return found
