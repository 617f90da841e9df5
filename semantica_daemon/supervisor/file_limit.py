"""The limit of open descriptors that jobs get, and the supervisor's own, which may have to be higher."""

import resource

SHARE = 8  # of the limit; then the supervisor raises its own: a run opens 4 descriptors, and up to 20 more for its log
SPARE = 16  # that a spawn may need itself


class FileLimit:
    """The supervisor begins with the limit of jobs (`lower`), which is enough for few runs and needs no change for a
    spawn. For many it raises its own, and then lowers it for the moment of each spawn."""

    def __init__(self, jobs: int) -> None:
        soft, self._hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._own = max(soft, jobs) if self._hard == resource.RLIM_INFINITY else self._hard
        self._jobs = min(jobs, self._own)
        self._is_raised = False

    def must_change(self, highest: int) -> bool:
        """Whether a spawn has to `lower` and `restore` the limit; `highest` is the highest number of its descriptors.
        A limit below the numbers of the supervisor's own descriptors would make the spawn itself fail."""
        if highest > self._jobs // SHARE and not self._is_raised:
            self._is_raised = True
            self.restore()
        return self._is_raised and highest + SPARE < self._jobs

    def lower(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._jobs, self._hard))

    def restore(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._own, self._hard))
