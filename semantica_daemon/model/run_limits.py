"""The rule for limits of a run: a limit that the daemon cannot keep is refused, never ignored."""

from collections.abc import Collection

from semantica_daemon.errors import InvalidParams, NotSupported
from semantica_daemon.wire.run import RunLimits

NO_LIMITS = RunLimits()
# The controller of cgroups that a limit needs; `nice` needs none.
CONTROLLER_OF = {"memory_bytes": "memory", "cpu_percent": "cpu"}


def check_limits(limits: RunLimits, mode: str | None, controllers: Collection[str]) -> None:
    if mode == "IN_PROCESS":
        problem = "a handler runs inside the daemon and cannot be limited"
        raise InvalidParams(problem, "leave it out, or run a command", path="$.limits")
    if mode is None:
        problem = "an external worker is not run by this daemon and cannot be limited"
        raise InvalidParams(problem, "leave it out, or run a command", path="$.limits")
    for name, controller in CONTROLLER_OF.items():
        if getattr(limits, name) is not None and controller not in controllers:
            problem = f"this daemon has no cgroup with the controller {controller}"
            raise NotSupported(problem, "leave it out; `semantica doctor` shows why", path=f"$.limits.{name}")
