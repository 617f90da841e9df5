"""The account of a schedule, from the stream alone: each of its times is fired, or told as skipped or failed, once."""

from typing import Any

TWO_DAYS_MS = 2 * 86_400_000


class Occurrences:
    """Every `period` ms, the next of them `following` (None: whichever). What is made by hand is not told here.

    `blurred_until`: the clock was set back more than once, and nobody can tell what will come once more by then."""

    def __init__(self, period: int, following: int | None) -> None:
        self.period = period
        self.following = following
        self.blurred_until = 0
        self.dealt_with: dict[int, str | None] = {}

    @property
    def jobs(self) -> list[str]:
        return [job_id for job_id in self.dealt_with.values() if job_id is not None]

    def told(self, event_type: str, about: dict[str, Any]) -> None:
        """In the order of the stream: nothing is left out, and nothing comes twice."""
        missed = about.get("reason") == "misfire"
        first, last = (about["first_at"], about["last_at"]) if missed else (about["trigger_at"],) * 2
        assert (first % self.period, last % self.period) == (0, 0)
        if first > self.blurred_until:
            self._check(first, last, about)
        if not missed:
            self.dealt_with[last] = about["job_id"] if event_type == "schedule.fired" else None
        self.following = last + self.period if last + self.period > self.blurred_until else None
        while self.following in self.dealt_with:
            self.following += self.period

    def _check(self, first: int, last: int, about: dict[str, Any]) -> None:
        assert first == (first if self.following is None else self.following), f"{about}, and {self.following} was next"
        new = sum(at not in self.dealt_with for at in range(first, last + 1, self.period))
        count = about.get("count", 1)
        assert new == count or (about.get("more") and new > count), f"some have come before: {about}"

    def clock_was_set(self, now: int, following: int | None) -> None:
        """It goes on somewhere else. What lies ahead of it now has been dealt with, and is not again; but only one
        unbroken row of that is remembered, and none that lies in another time altogether."""
        self.following = following
        self.dealt_with = {at: job_id for at, job_id in self.dealt_with.items() if at <= now + TWO_DAYS_MS}
        ahead = sorted(at for at in self.dealt_with if at > now)
        broken = bool(ahead) and ahead[-1] - ahead[0] != (len(ahead) - 1) * self.period
        self.blurred_until = max(self.blurred_until, ahead[-1]) if broken else self.blurred_until
