"""Attachments of the `job` family: a caller that follows a job from its start and may send its stdin or give it a
terminal."""

from typing import Annotated

from msgspec import Meta, Struct

from semantica_daemon.wire.types import Label, Params, about

Size = Annotated[int, Meta(ge=1, le=65_535)]


class AttachParams(Params, frozen=True):
    stdin: Annotated[bool, about("the stdin of the job's first run comes by job.input")] = False
    rows: Annotated[Size | None, about("rows of the terminal that the job gets; without them it has none")] = None
    columns: Annotated[Size | None, about("columns of its terminal")] = None


class Attached(Struct, frozen=True):
    attach_id: Annotated[str, about("for one job.enqueue; valid as long as this connection is open, and no longer")]


class InputParams(Params, frozen=True):
    attach_id: Annotated[Label, about("from job.attach with stdin")]
    data: Annotated[Annotated[str, Meta(max_length=262_144)], about("bytes for its stdin, in base64")] = ""
    eof: Annotated[bool, about("its stdin ends after the data")] = False
    rows: Annotated[Size | None, about("with columns, and without data: its terminal has a new size")] = None
    columns: Annotated[Size | None, about("with rows: its terminal has a new size")] = None


class InputResult(Struct, frozen=True):
    """The answer comes when the data is in the pipe of the job's stdin: send the next piece then."""

    is_open: Annotated[
        bool, about("whether more can be sent: false after eof, or when the job, its run or its stdin has ended")
    ]
