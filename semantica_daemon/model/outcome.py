"""How a run ended, as a value; `model/retry` decides what that means for its job."""

from typing import Literal

from msgspec import Struct

from semantica_daemon import prose
from semantica_daemon.wire.run import Error, ErrorClass

CLASSES: dict[str, ErrorClass] = {"transient": "transient", "permanent": "permanent", "infra": "infra"}
LARGEST_RESULT = 10_000_000  # bytes of JSON
Stop = Literal["cancel", "supersede", "timeout", "deadline", "shutdown", "lost"]


class Outcome(Struct, frozen=True):
    """`error` is None when the run succeeded; `result` is JSON text. `interrupted`: not caused by the job itself;
    `unstarted`: its process or handler never started; `lost`: idle or power ended, the job waits again.
    `took_ms`: by the monotonic clock; None: the daemon did not see the end. `retry_after_ms`: the delay that a failed
    run has asked for; None: the backoff. `log_bytes`: of the whole output of a command that succeeded."""

    result: str | None = None
    error: Error | None = None
    exit_code: int | None = None
    interrupted: bool = False
    unstarted: bool = False
    lost: bool = False
    took_ms: int | None = None
    retry_after_ms: int | None = None
    log_bytes: int = 0

    @property
    def failed_claim(self) -> bool:
        """True when the run failed before its process started; counts towards the claim limit."""
        return self.unstarted and not self.interrupted


CRASHED = Outcome(
    error=Error("E_ENGINE_CRASH", "infra", "the daemon ended while this run was under way"), interrupted=True
)
ESCAPED = Outcome(
    error=Error("E_ENGINE_CRASH", "permanent", "the daemon or its supervisor ended, and this run could not be ended")
)
SHUT_DOWN = Outcome(
    error=Error("E_SHUTDOWN", "infra", "the daemon was stopped while this run was under way"), interrupted=True
)
STOPPED_BEFORE_START = Outcome(
    error=Error("E_SPAWN", "infra", "it was asked to stop before it was started"), interrupted=True, unstarted=True
)
LOST = Outcome(
    error=Error("E_CONDITION_LOST", "infra", "the machine is no longer idle or on mains power; the job waits again"),
    lost=True,
)
LEASE_LOST = Outcome(
    error=Error("E_LEASE_LOST", "infra", "the worker did not renew its lease in time"), interrupted=True
)
NOT_TAKEN = Outcome(error=Error("E_SPAWN", "infra", "the worker was gone before it could take the job"), unstarted=True)
GIVEN_BACK = Outcome(
    error=Error("E_LEASE_LOST", "infra", "the worker gave the job back"), interrupted=True, unstarted=True
)
PAST_DEADLINE = Outcome(error=Error("E_DEADLINE", "permanent", "the deadline passed while this run was under way"))


def timed_out(timeout_ms: int) -> Outcome:
    message = f"the run took longer than its timeout of {prose.duration(timeout_ms)}"
    return Outcome(error=Error("E_TIMEOUT", "transient", message))
