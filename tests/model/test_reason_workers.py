"""The reasons of jobs for external workers."""

from typing import Any

from semantica_daemon.wire.reason import Reason
from tests.cases import each_case
from tests.model.test_reason import explained

EXTERNAL: dict[str, Any] = {"is_external": 1, "job_type": "resize", "ahead": 3, "slots": 0}
NO_WORKER = "no worker for it: none that is alive takes resize jobs of queue build"
ABOUT: dict[str, Any] = {"queue": "build", "job_type": "resize"}
AHEAD = Reason("ahead", "3 ahead in build", ahead=3, queue="build")


@each_case(
    ("workers", "expected"),
    [
        (0, [Reason("worker", NO_WORKER, count=0, **ABOUT)]),
        (1, [AHEAD, Reason("worker", "it waits for the worker that may claim it", count=1, **ABOUT)]),
        (2, [AHEAD, Reason("worker", "it waits for one of 2 workers that may claim it", count=2, **ABOUT)]),
    ],
)
def test_a_queued_job_waits_for_workers_and_never_for_slots(workers: int, expected: list[Reason]) -> None:
    found = explained("QUEUED", **EXTERNAL, workers=workers)
    assert found.reasons == expected
    assert found.estimated_start_at is None
