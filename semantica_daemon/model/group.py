"""The status of a group, derived from the states of its members."""

from collections.abc import Mapping

from semantica_daemon.model.state import CANCELLED, DONE, FAILED, LIVE, QUEUED, SCHEDULED
from semantica_daemon.wire.group import GroupStatus

FAILURES = (FAILED, "SKIPPED_TTL", "SKIPPED_DEADLINE")  # the ends that `on_failure` is about
NOT_STARTED = (QUEUED, SCHEDULED)


def status(counts: Mapping[str, int]) -> GroupStatus:
    """`counts`: the number of members in each state. A group has ended when every member has; one that was superseded
    counts neither as done nor as failed. Some DONE and some not is PARTIAL, none DONE is FAILED or CANCELLED."""
    waiting = sum(counts.get(state, 0) for state in NOT_STARTED)
    if not any(counts.values()) or waiting == sum(counts.values()):
        return "PENDING"
    if any(counts.get(state, 0) for state in LIVE):
        return "RUNNING"
    failed = sum(counts.get(state, 0) for state in FAILURES)
    if counts.get(DONE, 0):
        return "PARTIAL" if failed or counts.get(CANCELLED, 0) else "DONE"
    return "FAILED" if failed else "CANCELLED"


def has_ended(counts: Mapping[str, int]) -> bool:
    return any(counts.values()) and not any(counts.get(state, 0) for state in LIVE)
