"""The values of secret variables: in memory only, from the commit of their job until the job ends. Jobs of one shell
share their values."""

from semantica_daemon.model.event import ENDS
from semantica_daemon.store.database import CommitResult


class Secrets:
    def __init__(self) -> None:
        self._values: dict[str, dict[str, str]] = {}
        self._latest: dict[str, str] = {}

    def committed(self, committed: CommitResult) -> None:
        for job_id, secrets, dropped in committed.secrets:
            if known := self._values.get(job_id):  # of a job that was changed
                kept = {name: value for name, value in known.items() if name not in dropped}
                self._values[job_id] = {**kept, **secrets}
                continue
            if secrets != self._latest:
                self._latest = secrets
            self._values[job_id] = self._latest
        if self._values:
            for stored in committed.events:
                if stored.event.event_type in ENDS:
                    self._values.pop(stored.event.job_id or "", None)
            if not self._values:
                self._latest = {}

    def of(self, job_id: str) -> dict[str, str]:
        return self._values.get(job_id, {})
