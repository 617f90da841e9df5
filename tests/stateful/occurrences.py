"""The times of a schedule by its events alone: each is fired, or reported as skipped or failed, once and in order."""

from typing import Any


class Occurrences:
    """Every `period` ms from `origin` on, the next of them `following` (None: any). `before`: times of before the clock
    was last set; a schedule may pass over those, or fire them again, by the three-hour rule that
    `tests/model/test_schedule` checks."""

    def __init__(self, period: int, following: int | None, origin: int = 0) -> None:
        self.period = period
        self.origin = origin
        self.following = following
        self.before: set[int] = set()
        self.since: set[int] = set()
        self.jobs: list[str] = []

    def event(self, event_type: str, about: dict[str, Any]) -> None:
        """The events of the schedule, in the order of the stream."""
        missed = about.get("reason") == "misfire"
        first, last = (about["first_at"], about["last_at"]) if missed else (about["trigger_at"],) * 2
        assert ((first - self.origin) % self.period, (last - self.origin) % self.period) == (0, 0)
        times = range(first, last + self.period, self.period)
        following = first if self.following is None else self.following
        assert first >= following, f"{about}, and {following} was next"
        assert self.before.issuperset(range(following, first, self.period)), f"{about}, and {following} was next"
        assert self.since.isdisjoint(times), f"{about}: it has come before"
        new = sum(at not in self.before for at in times)
        assert about.get("more") or new <= about.get("count", 1) <= len(times), about
        self.since.update(times)
        self.following = last + self.period
        if event_type == "schedule.fired":
            self.jobs.append(about["job_id"])

    def clock_was_set(self) -> None:
        self.before |= self.since
        self.since = set()
        self.following = None
