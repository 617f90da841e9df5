"""template.put and template.delete, and the jobs that are made from a template. `catalogue` has the queries."""

from typing import Any

import msgspec

from semantica_daemon.errors import InUse, InvalidParams, NameTaken, Refusal, TemplateNotFound
from semantica_daemon.model.admission import AdmittedJob, Origin
from semantica_daemon.store.tx import Tx
from semantica_daemon.wire.job import JobSpec
from semantica_daemon.wire.template import DeleteTemplateResult, PutTemplateParams, TemplateAck, TemplateParams

# An id wins over a name, in case a template is named like the id of another.
BY_KEY = """
SELECT template_id, name, spec
FROM templates
WHERE template_id = :key OR name = :key
ORDER BY template_id = :key DESC
LIMIT 1
"""
BY_NAME = "SELECT template_id, name, spec FROM templates WHERE name = :name"
PUT = """
INSERT INTO templates (template_id, name, spec, created_at, updated_at)
VALUES (:template_id, :name, :spec, :now, :now)
ON CONFLICT (template_id) DO UPDATE
SET name = excluded.name, spec = excluded.spec, updated_at = excluded.updated_at
"""
USED_BY = "SELECT name FROM schedules WHERE template_id = :template_id ORDER BY name LIMIT 10"
DELETE = "DELETE FROM templates WHERE template_id = :template_id"
MOST_BYTES = 262_144
ONCE = ("generation", "idempotency_key", "template_id", "parent_job_id", "parents")


def put(tx: Tx, params: PutTemplateParams) -> TemplateAck:
    """Creates or replaces a template. Refuses a spec that could never become a job."""
    _check(tx, params.spec)
    spec = check_size(params.spec, "$.spec")
    by_name = tx.execute(BY_NAME, {"name": params.name}).fetchone()
    known = by_name if params.template_id is None else find(tx, params.template_id)
    if by_name is not None and known[0] != by_name[0]:
        raise NameTaken(f"there is another template {params.name}", "choose another name", template_id=by_name[0])
    template_id = known[0] if known else tx.ids.job()
    tx.execute(PUT, {"template_id": template_id, "name": params.name, "spec": spec, "now": tx.now})
    answer = TemplateAck(template_id, params.name, known is None)
    done = "created" if answer.created else "changed"
    tx.announce(f"template.{done}", f"template {params.name} {done}", answer)
    return answer


def delete(tx: Tx, params: TemplateParams) -> DeleteTemplateResult:
    template_id, name, _ = find(tx, params.template_id)
    users = [row[0] for row in tx.execute(USED_BY, {"template_id": template_id}).fetchall()]
    if users:
        raise InUse(f"template {name} is used by schedule {', '.join(users)}", "delete that first", schedules=users)
    tx.execute(DELETE, {"template_id": template_id})
    tx.announce("template.deleted", f"template {name} deleted", {"template_id": template_id, "name": name})
    return DeleteTemplateResult(template_id)


def find(tx: Tx, key: str) -> tuple[str, str, str]:
    """(id, name, spec)"""
    row: tuple[str, str, str] | None = tx.execute(BY_KEY, {"key": key}).fetchone()
    if row is None:
        raise TemplateNotFound(f"no template {key}", "template.list shows what there is", template_id=key)
    return row


def filled(tx: Tx, job: AdmittedJob) -> AdmittedJob:
    """Merges the template's spec; the caller's fields win."""
    if job.spec.template_id is None:
        return job
    given: dict[str, Any] = msgspec.to_builtins(job.spec)
    template_id, _, text = find(tx, given.pop("template_id"))
    spec: dict[str, Any] = msgspec.json.decode(text)
    spec |= given | {"payload": {**spec.get("payload", {}), **given.get("payload", {})}}
    admitted = tx.admit(read(msgspec.json.encode(spec)))
    return msgspec.structs.replace(admitted, spec_hash=job.spec_hash, origin=Origin(template_id))


def read(text: str | bytes) -> JobSpec:
    """Raises InvalidParams for a spec stored by an incompatible version."""
    try:
        return msgspec.json.decode(text, type=JobSpec)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"the template cannot be used: {error}", "put it again") from None


def check_size(value: Any, path: str) -> str:
    """Encodes the value; refuses more than MOST_BYTES, since each job reads it inside a transaction."""
    text = msgspec.json.encode(value)
    if len(text) > MOST_BYTES:
        raise _wrong(f"{len(text)} bytes, at most {MOST_BYTES} are kept", path, "put it into a file and name the file")
    return text.decode()


def _check(tx: Tx, spec: JobSpec) -> None:
    for field in ONCE:
        if getattr(spec, field) is not None:
            hint = "leave it out: a template makes more than one job"
            raise _wrong("a template cannot have it", f"$.spec.{field}", hint)
    if spec.environment is not None:
        hint = "put the variables that its jobs need into env_vars"
        raise _wrong("a template takes no environment of a caller", "$.spec.environment", hint)
    if spec.schedule.scheduled_at is not None:
        hint = "use a delay, or a schedule"
        raise _wrong("a template takes no fixed time", "$.spec.schedule.scheduled_at", hint)
    if spec.deadline is not None:
        raise _wrong("a template takes no fixed time", "$.spec.deadline", "use a timeout or a TTL")
    try:
        secrets = tx.admit(spec).secrets
    except Refusal as refused:
        refused.moved("$", "$.spec")
        raise
    if secrets:
        names = ", ".join(sorted(secrets))
        hint = "let the command read it from a file or a keyring of its own"
        raise _wrong(f"a template is stored, and secrets are not: {names}", "$.spec.env_vars", hint)


def _wrong(problem: str, path: str, hint: str) -> InvalidParams:
    return InvalidParams(problem, hint, path=path)
