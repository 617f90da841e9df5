"""Exceptions by which a handler gives the class of its failure; any other exception is a transient failure.

Any exception may have a `failure_class`, and `retry_after_ms` for a retry after that time instead of the backoff.
"""


class Transient(Exception):
    """The job may be retried."""

    failure_class = "transient"


class Permanent(Exception):
    """The job is not retried."""

    failure_class = "permanent"


class Infra(Exception):
    """Something around the job failed, not the job itself: it may be retried."""

    failure_class = "infra"


class Retry(Transient):
    """The run has failed, and the job is retried after `after` seconds (at most a day), if an attempt is left; without
    `after`, after its backoff. `ctx.retry` raises it."""

    def __init__(self, message: str = "it asked to be retried", after: float | None = None) -> None:
        super().__init__(message)
        if after is not None and not after >= 0:
            raise ValueError(f"after is {after!r}: give seconds, 0 or more")
        self.retry_after_ms = None if after is None else round(min(after, 1e9) * 1000)
