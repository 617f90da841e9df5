"""What a power loss may take, and what not: nothing durable, and nothing that was acknowledged before a later sync."""

from pathlib import Path

from tests.crash.invariants import check, reading
from tests.soak.recorder import Operation


class Acknowledged:
    """Jobs and the position of the recorder when they were acknowledged."""

    def __init__(self) -> None:
        self.durable: dict[str, int] = {}
        self.other: dict[str, int] = {}

    def must_be_there(self, operations: list[Operation]) -> set[str]:
        """After a power loss that follows these operations."""
        end = operations[-1].end if operations else 0
        synced = max((one.end for one in operations if (one.what, one.file) == (b"S", b"w")), default=0)
        kept = {job_id for job_id, position in self.durable.items() if position <= end}
        return kept | {job_id for job_id, position in self.other.items() if position < synced}

    def check(self, home: Path, operations: list[Operation]) -> None:
        check(home)
        with reading(home) as connection:
            there = {row[0] for row in connection.execute("SELECT id FROM jobs")}
        lost = self.must_be_there(operations) - there
        assert not lost, f"{len(lost)} jobs that were on the disk are lost: {sorted(lost)[:5]}"
