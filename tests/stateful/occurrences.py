"""The account of a schedule, from the stream alone: each of its times is fired, or told as skipped or failed, once."""

from typing import Any


class Occurrences:
    """Every `period` ms, the next of them `following` (None: whichever). What is made by hand is not told here."""

    def __init__(self, period: int, following: int | None) -> None:
        self.period = period
        self.following = following
        self.dealt_with: dict[int, str | None] = {}

    @property
    def jobs(self) -> list[str]:
        return [job_id for job_id in self.dealt_with.values() if job_id is not None]

    def told(self, event_type: str, about: dict[str, Any]) -> None:
        """In the order of the stream: nothing is left out, and nothing comes twice."""
        if about.get("reason") == "misfire":
            first, last = about["first_at"], about["last_at"]
            count = sum(at not in self.dealt_with for at in range(first, last + 1, self.period))
            assert count == about["count"] or (about["more"] and count > about["count"]), about
        else:
            first = last = about["trigger_at"]
            assert last not in self.dealt_with, f"it has come before: {about}"
            self.dealt_with[last] = about["job_id"] if event_type == "schedule.fired" else None
        assert first == (first if self.following is None else self.following), f"{about}, and {self.following} was next"
        assert (first % self.period, last % self.period) == (0, 0)
        self.following = last + self.period
        while self.following in self.dealt_with:
            self.following += self.period

    def clock_was_set(self, now: int, following: int | None) -> None:
        """It goes on somewhere else. What lies ahead of it now has been dealt with, and is not again; but only one
        unbroken row of that is remembered."""
        self.following = following
        ahead = sorted(at for at in self.dealt_with if at > now)
        if ahead and ahead[-1] - ahead[0] != (len(ahead) - 1) * self.period:
            for at in ahead:
                del self.dealt_with[at]
