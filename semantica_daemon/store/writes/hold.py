"""job.hold and job.release: a held job is SCHEDULED and does not start before it is released."""

from semantica_daemon.model.selection import Lists, to_hold, to_release
from semantica_daemon.store import transition
from semantica_daemon.store.selected import Portion, change_each
from semantica_daemon.store.tx import Tx


def hold(tx: Tx, portion: Portion) -> Lists:
    return change_each(tx, portion, to_hold, lambda hit: transition.hold(tx, tx.read(hit.number)))


def release(tx: Tx, portion: Portion) -> Lists:
    return change_each(tx, portion, to_release, lambda hit: transition.release(tx, tx.read(hit.number)))
