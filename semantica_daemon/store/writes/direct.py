"""job.execute: stores a job under a reservation of its own. The claim of the same transaction starts exactly that job,
whether a slot is free or not; the transaction that ends it releases the reservation (`reservations.settle`)."""

from semantica_daemon.model import state
from semantica_daemon.model.admission import AdmittedJob
from semantica_daemon.model.direct import check_direct
from semantica_daemon.model.reservation import taken
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import reservations, templates
from semantica_daemon.store.writes.decide import decide_direct
from semantica_daemon.store.writes.enqueue import carry_out, join
from semantica_daemon.wire.job import Ack
from semantica_daemon.wire.reservation import TEN_MINUTES_MS


def execute(tx: Tx, job: AdmittedJob) -> Ack:
    """A job that is known already is returned, and not started. Raises Reserved while a reservation is ACTIVE."""
    if job.spec.template_id is not None:
        job = templates.filled(tx, job)
        check_direct(job.spec)
    decided = decide_direct(tx, job)
    if decided.existing is not None:
        return join(tx, job, decided.existing, decided.by_key)
    reservations.end_if_over(tx)
    if tx.reservations.active is not None:
        raise taken(tx.reservations.active)
    if job.spec.durable:
        tx.must_sync = True
    ack = carry_out(tx, job, decided)
    if ack.state == state.QUEUED:
        reservations.insert(tx, tx.ids.job(), f"job {ack.job_id}", TEN_MINUTES_MS, ack.job_id)
    return ack
