"""The receipt of a job, version 1: a document that is signed byte for byte. docs/receipt.schema.json is made from it;
`model/receipt` has its canonical bytes and its hash."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from semantica_daemon.wire.run import ErrorClass
from semantica_daemon.wire.types import about

Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Kind = Literal["complete", "partial"]
ArtifactType = Literal["output", "receipt", "log", "partial"]
ArtifactStatus = Literal["pending", "writing", "complete", "failed", "quarantined"]


class GitPin(Struct, frozen=True):
    """The state of the git repository that the job ran in."""

    commit: Annotated[str, about("id of the commit that was checked out when the job started")]
    dirty: Annotated[bool, about("whether files differed from that commit")]


class InputPin(Struct, frozen=True):
    """A file that was copied into the input folder of the job."""

    path: Annotated[str, about("path of the copy, relative to the folder of the job")]
    sha256: Annotated[Digest, about("hash of its content")]
    size: Annotated[int, about("bytes")]


class Sources(Struct, frozen=True):
    """What the job was made from."""

    git: Annotated[GitPin | None, about("null outside a git repository")] = None
    inputs: Annotated[list[InputPin], about("the inputs that the job asked for")] = []


class RecordedError(Struct, frozen=True, rename={"class_": "class"}):
    """Why a run failed."""

    code: Annotated[str, about("such as E_EXIT, E_SIGNAL, E_TIMEOUT or E_ENGINE_CRASH")]
    class_: Annotated[ErrorClass, about("transient, permanent or infra")]
    message: Annotated[str, about("a sentence")]


class RecordedRun(Struct, frozen=True):
    """One run of the job."""

    run_id: Annotated[str, about("id of the run")]
    attempt: Annotated[int, about("attempt number, from 1")]
    status: Annotated[str, about("DONE, FAILED, CANCELLED, SUPERSEDED or INTERRUPTED")]
    started_at: Annotated[int, about("epoch ms")]
    finished_at: Annotated[int | None, about("epoch ms")]
    exit_code: Annotated[int | None, about("exit code of its command; null on a signal")]
    error: Annotated[RecordedError | None, about("why it failed")]


class RecordedOutput(Struct, frozen=True):
    """A file that the job has made."""

    path: Annotated[str, about("relative to the folder of the job, such as output/report.txt")]
    size: Annotated[int | None, about("bytes; null when it is no regular file")]
    mtime: Annotated[int | None, about("when it was last changed, epoch ms")]
    sha256: Annotated[Digest | None, about("hash of its content; null when it could not be read")]
    type: Annotated[ArtifactType, about("output, log, or partial: left by a run that did not succeed")]
    status: Annotated[ArtifactStatus, about("complete; quarantined: not to be trusted; failed: not readable")]


class Timestamps(Struct, frozen=True):
    """Instants in epoch ms, UTC."""

    created_at: Annotated[int, about("when the job was enqueued")]
    queued_at: Annotated[int | None, about("when it last became ready to run")]
    started_at: Annotated[int | None, about("when its last run started")]
    finished_at: Annotated[int, about("when the job ended")]


class Signature(Struct, frozen=True):
    """Which key signs the document. The value of the signature is beside the document, not inside it."""

    key_id: Annotated[Digest, about("sha256 of the public key in DER form (SubjectPublicKeyInfo)")]
    algorithm: Annotated[Literal["ed25519"], about("Ed25519, RFC 8032")] = "ed25519"


class Receipt(Struct, frozen=True, kw_only=True):
    """How a job has ended: what was asked for, what it ran on, its runs and its outputs."""

    version: Annotated[Literal[1], about("version of this format")] = 1
    receipt_number: Annotated[Annotated[int, Meta(ge=1)], about("1 for the first receipt of this daemon, then 2, 3, …")]
    previous: Annotated[Digest | None, about("hash of the receipt with the number before; null in the first one")]
    kind: Annotated[Kind, about("complete: the job is DONE; partial: it ended in another way")]
    job_id: Annotated[str, about("id of the job, a UUID")]
    job_type: Annotated[str, about("type of the job")]
    queue: Annotated[str, about("its queue")]
    subject_key: Annotated[str | None, about("what the job is about")]
    generation: Annotated[int | None, about("version of the subject")]
    state: Annotated[str, about("how it ended: DONE, FAILED, CANCELLED, SUPERSEDED, SKIPPED_TTL or SKIPPED_DEADLINE")]
    exit_code: Annotated[int | None, about("exit code of its last run; null on a signal")]
    error: Annotated[RecordedError | None, about("why its last run failed")]
    timestamps: Annotated[Timestamps, about("its life")]
    spec: Annotated[dict[str, Any], about("what was asked for, without defaults and without values of secrets")]
    spec_hash: Annotated[Digest, about("sha256 of spec in the canonical form of this document")]
    sources: Annotated[Sources, about("what it was made from")]
    runs: Annotated[list[RecordedRun], about("its runs, oldest first, at most the newest hundred")]
    event_count: Annotated[int, about("how many events the job had when this was written")]
    outputs: Annotated[list[RecordedOutput], about("the files that it has made")]
    signature: Annotated[Signature, about("the key that signs this document")]
