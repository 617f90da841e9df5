"""The values of secret variables: in memory only, from the commit of their job until the job ends."""

from semantica_daemon.model.event import ENDS
from semantica_daemon.store.database import CommitResult


class Secrets:
    def __init__(self) -> None:
        self._values: dict[str, dict[str, str]] = {}

    def committed(self, committed: CommitResult) -> None:
        self._values.update(committed.secrets)
        if self._values:
            for stored in committed.events:
                if stored.event.event_type in ENDS:
                    self._values.pop(stored.event.job_id or "", None)

    def of(self, job_id: str) -> dict[str, str]:
        return self._values.get(job_id, {})
