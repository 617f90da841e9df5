"""Every refusal a caller can meet: a stable code, whether to try again, and what to do next.

`rpc/protocol` turns these into JSON-RPC error objects; anything else that is raised is a bug of ours.
"""

import difflib
from collections.abc import Iterable
from typing import Any, ClassVar


class Refusal(Exception):
    """A call that cannot be granted. Raised by verbs and questions; changes nothing."""

    number: ClassVar[int] = 4000
    code: ClassVar[str] = "E_VALIDATION"
    retryable: ClassVar[bool] = False

    def __init__(self, problem: str, hint: str = "", **details: Any) -> None:
        """`details` go into the error's data; `path` is the JSON path of the field that `problem` is about."""
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.details = details

    @property
    def message(self) -> str:
        return f"{self.problem} - at `{self.details['path']}`" if "path" in self.details else self.problem

    def __str__(self) -> str:
        return self.message

    def moved(self, old: str, new: str) -> "Refusal":
        """This refusal, after the document it is about has become a part of a larger one."""
        path = self.details.get("path", "$")
        if path.startswith(old):
            self.details["path"] = new + path[len(old) :]
        return self


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """The hint that names the nearest of the known words, in any case; empty when none is near."""
    words = {word.lower(): word for word in known}
    near = difflib.get_close_matches(wrong.lower(), words, 1)
    return f"did you mean {words[near[0]]}?" if near else ""


def located(message: str, root: str = "$") -> tuple[str, str]:
    """A ValidationError of msgspec as the problem and the JSON path of its field; the document begins at `root`."""
    problem, at, where = message.rpartition(" - at `")
    if not at:
        return message, root
    kind, _, path = where.removesuffix("`").partition("$")
    return (f"{problem} (a {kind.partition('`')[0]})" if kind else problem), root + path


class ParseFailed(Refusal):
    number, code = -32700, "E_PARSE"


class InvalidRequest(Refusal):
    number, code = -32600, "E_REQUEST"


class UnknownMethod(Refusal):
    number, code = -32601, "E_METHOD_NOT_FOUND"


class InvalidParams(Refusal):
    number, code = -32602, "E_PARAMS"


class InternalError(Refusal):
    number, code = -32603, "E_INTERNAL"


class RequestCancelled(Refusal):
    number, code = -32800, "E_REQUEST_CANCELLED"


class NotSupported(Refusal):
    code = "E_NOT_SUPPORTED"


class NoHandler(Refusal):
    code = "E_NO_HANDLER"


class PayloadRefused(Refusal):
    code = "E_PAYLOAD"


class JobNotFound(Refusal):
    number, code = 4001, "E_JOB_NOT_FOUND"


class TemplateNotFound(Refusal):
    number, code = 4001, "E_TEMPLATE_NOT_FOUND"


class ScheduleNotFound(Refusal):
    number, code = 4001, "E_SCHEDULE_NOT_FOUND"


class QueueNotFound(Refusal):
    number, code = 4001, "E_QUEUE_NOT_FOUND"


class GroupNotFound(Refusal):
    number, code = 4001, "E_GROUP_NOT_FOUND"


class GroupExists(Refusal):
    number, code = 4002, "E_GROUP_EXISTS"


class TooManySlots(Refusal):
    code = "E_TOO_MANY_SLOTS"


class ReservationNotFound(Refusal):
    number, code = 4001, "E_RESERVATION_NOT_FOUND"


class WorkerNotFound(Refusal):
    number, code = 4001, "E_WORKER_NOT_FOUND"


class LeaseLost(Refusal):
    number, code = 4002, "E_LEASE_LOST"


class NameTaken(Refusal):
    number, code = 4002, "E_NAME_TAKEN"


class InUse(Refusal):
    number, code = 4002, "E_IN_USE"


class QueueInUse(Refusal):
    number, code = 4002, "E_QUEUE_IN_USE"


class RunNotFound(Refusal):
    number, code = 4001, "E_RUN_NOT_FOUND"


class RunOver(Refusal):
    number, code = 4001, "E_RUN_OVER"


class AmbiguousId(Refusal):
    number, code = 4002, "E_AMBIGUOUS_ID"


class GenerationOwner(Refusal):
    number, code = 4002, "E_GENERATION_OWNER"


class Stale(Refusal):
    number, code = 4002, "E_STALE"


class NotEnded(Refusal):
    number, code = 4002, "E_NOT_ENDED"


class NotQueued(Refusal):
    number, code = 4002, "E_NOT_QUEUED"


class OtherQueue(Refusal):
    number, code = 4002, "E_OTHER_QUEUE"


class NotWaiting(Refusal):
    number, code = 4002, "E_NOT_WAITING"


class HasRun(Refusal):
    number, code = 4002, "E_HAS_RUN"


class OrderChanges(Refusal):
    number, code, retryable = 4003, "E_ORDER_CHANGES", True


class Archived(Refusal):
    number, code = 4001, "E_ARCHIVED"


class ParentEnded(Refusal):
    number, code = 4002, "E_PARENT_ENDED"


class Reserved(Refusal):
    number, code, retryable = 4002, "E_RESERVED", True


class ReservationOver(Refusal):
    number, code = 4002, "E_RESERVATION_OVER"


class NeverStarts(Refusal):
    number, code = 4002, "E_NEVER_STARTS"


class SecretLost(Refusal):
    number, code = 4002, "E_SECRET_LOST"


class IdempotencyConflict(Refusal):
    number, code = 4002, "E_IDEMPOTENCY_CONFLICT"


class QueueFull(Refusal):
    number, code, retryable = 4003, "E_QUEUE_FULL", True


class TooManyConnections(Refusal):
    number, code, retryable = 4003, "E_TOO_MANY_CONNECTIONS", True


class TooManySubscriptions(Refusal):
    number, code = 4003, "E_TOO_MANY_SUBSCRIPTIONS"


class TooManyUnreadReplies(Refusal):
    number, code, retryable = 4003, "E_UNREAD_REPLIES", True


class DatabaseBusy(Refusal):
    number, code, retryable = 5001, "E_DATABASE_BUSY", True


class StorageFull(Refusal):
    number, code, retryable = 5001, "E_STORAGE_FULL", True


class DatabaseFailed(Refusal):
    number, code, retryable = 5001, "E_DATABASE", True


class OutcomeUnknown(Refusal):
    number, code = 5001, "E_OUTCOME_UNKNOWN"


class Stopping(Refusal):
    number, code, retryable = 5002, "E_STOPPING", True


class CheckpointFailed(Exception):
    """Commits cannot be moved from the WAL to the database file. `is_full`: until there is room on the disk again."""

    def __init__(self, message: str, is_full: bool) -> None:
        super().__init__(message)
        self.is_full = is_full


class OutOfMemory(Refusal):
    number, code, retryable = 5002, "E_OUT_OF_MEMORY", True

    def __init__(self) -> None:
        super().__init__("the daemon is out of memory", "nothing was changed; send less, or raise its ulimit -v")


class HomeLost(Exception):
    """The lock or the database is no longer the file that was opened: nothing that is written is kept."""


class StartRefused(Exception):
    """The daemon cannot start; the message has the reason and what to do, `exit_code` is one of sysexits."""

    def __init__(self, message: str, exit_code: int = 78) -> None:
        super().__init__(message)
        self.exit_code = exit_code
