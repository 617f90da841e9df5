"""The types that several families share: bounded numbers and strings, and the base of all params."""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

FAR_FUTURE = 10**15
NULL = Raw(b"null")

Ms = Annotated[int, Meta(ge=0, le=FAR_FUTURE)]
At = Annotated[int, Meta(ge=0, le=FAR_FUTURE)]
Wait = Annotated[int, Meta(ge=0, le=86_400_000)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Items = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Generation = Annotated[int, Meta(ge=0, le=2**62)]
Sequence = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Priority = Annotated[int, Meta(ge=-100, le=100)]
Percent = Annotated[float, Meta(ge=0, le=100)]
QUEUE_PATTERN = r"\A[A-Za-z0-9_.-]+\Z"
Queue = Annotated[str, Meta(min_length=1, max_length=64, pattern=QUEUE_PATTERN)]
# The two fields of every enqueue: `model/job` checks their patterns, in a tenth of the time that the decoder takes.
JobType = Annotated[str, Meta(min_length=1, max_length=128, extra_json_schema={"pattern": r"\A[^\x00]*\Z"})]
SpecQueue = Annotated[str, Meta(min_length=1, max_length=64, extra_json_schema={"pattern": QUEUE_PATTERN})]
Subject = Annotated[str, Meta(min_length=1, max_length=512, pattern=r"\A[^\x00]*\Z")]
Label = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"\A[^\x00]*\Z")]
Value = Annotated[str, Meta(max_length=1024, pattern=r"\A[^\x00]*\Z")]
Parent = Annotated[str, Meta(min_length=2, max_length=36, pattern=r"\A(#[0-9]{1,3}|[0-9a-fA-F-]{4,36})\Z")]
JobId = Annotated[str, Meta(min_length=4, max_length=36, pattern=r"\A[0-9a-fA-F-]+\Z")]
Text = Annotated[str, Meta(max_length=65_536)]
Mode = Literal["SUBPROCESS", "IN_PROCESS", "EXTERNAL"]
OnRunning = Literal["finish", "cancel"]
Level = Literal["debug", "info", "warn", "error"]
State = Literal[
    "QUEUED", "SCHEDULED", "RUNNING", "DONE", "FAILED", "CANCELLED", "SUPERSEDED", "SKIPPED_TTL", "SKIPPED_DEADLINE"
]
FEW = Meta(max_length=100)


def about(description: str) -> Meta:
    """What a field means; rpc.discover and docs/protocol.md show it."""
    return Meta(description=description)


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all params, and the params of a method that takes none: unknown fields are refused."""
