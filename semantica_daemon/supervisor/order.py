"""What the daemon asks the supervisor for, and the supervisor's refusal."""

from typing import NamedTuple


class Order(NamedTuple):
    """A run to start; `workspace` is the folder of its job, which the supervisor makes."""

    run: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    umask: int
    stdin: str | None
    workspace: str
    output: str
    result: str
    log: str
    log_bytes: int
    leftovers: str


class NotStarted(Exception):
    """`of`: whether it is the command, its cwd or its workspace; `again`: asking later may help."""

    def __init__(self, message: str, of: str, errno: int, again: bool) -> None:
        super().__init__(message)
        self.message = message
        self.of = of
        self.errno = errno
        self.again = again
