"""When `semantica map` gives up: `--halt`, as GNU parallel has it."""

import re

PATTERN = re.compile(r"(soon|now),(fail|success|done)=(\d+)(%?)")
USAGE = "never, or soon or now with fail, success or done, such as soon,fail=1  now,fail=3  soon,fail=10%"


class Halt:
    """`soon`: no further item is started; `now`: running ones are cancelled too."""

    def __init__(self, when: str = "never", what: str = "fail", most: int = 0, is_percent: bool = False) -> None:
        self.when = when
        self.what = what
        self.most = most
        self.is_percent = is_percent

    @property
    def text(self) -> str:
        """As the option is written."""
        return f"{self.when},{self.what}={self.most}{'%' if self.is_percent else ''}" if self.most else self.when

    @property
    def is_at_first_failure(self) -> bool:
        return self.what == "fail" and self.most == 1 and not self.is_percent

    @property
    def counts_ends(self) -> bool:
        """Whether the next item may be added only when it is known how the others ended."""
        return self.when == "soon" and not self.is_percent and not self.is_at_first_failure

    def is_due(self, done: int, failed: int, total: int | None) -> bool:
        """`total`: the number of all items; None while it is not known, when no percentage is due."""
        if self.when == "never":
            return False
        count = {"fail": failed, "success": done, "done": done + failed}[self.what]
        if self.is_percent:
            return total is not None and 100 * count >= self.most * total
        return count >= self.most

    def exit_code(self, last_code: int, failed: int, total: int) -> int:
        """After a halt: that of the one job that caused it, else the number or percentage of those that failed."""
        if self.what == "success":
            return 0
        if self.is_percent:
            return round(100 * failed / max(1, total))
        return last_code if self.most == 1 else failed_code(failed)


def failed_code(failed: int) -> int:
    return min(failed, 101)


def halt(text: str) -> Halt:
    if text == "never":
        return Halt()
    found = PATTERN.fullmatch(text)
    if found is None or int(found[3]) < 1 or (found[4] and int(found[3]) > 100):
        raise ValueError(f"{text!r} is not known: {USAGE}")
    return Halt(found[1], found[2], int(found[3]), bool(found[4]))
