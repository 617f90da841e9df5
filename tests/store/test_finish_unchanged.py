"""The end of a run that nothing has changed since its claim is stored without reading the job; the rows are the same as
when the job is read, whatever has changed it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store.run_transition import Begun, Claim
from semantica_daemon.store.writes.begin import begin
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.report import Line, Report, RunResult, keep_result, report
from semantica_daemon.wire.run import Progress
from tests.builders import Store
from tests.store import invariants
from tests.store.steps import BAD, COMMAND, claims, end, put, stop, tick

LANE = {"subject_key": "file"}
TABLES = ("jobs", "job_runs", "job_events", "lanes", "queue_counts")

Change = Callable[[Store, Claim], object]


def nothing(store: Store, claimed: Claim) -> None:
    pass


def report_line(store: Store, claimed: Claim) -> None:
    store.run(report, Report(claimed.run, (Line("half way"),)))


def report_progress(store: Store, claimed: Claim) -> None:
    store.run(report, Report(claimed.run, progress=Progress(percent=50)))


def store_result(store: Store, claimed: Claim) -> None:
    store.run(keep_result, RunResult(claimed.run, '{"n":1}'))


def record_start(store: Store, claimed: Claim) -> None:
    store.run(begin, process(claimed))


def cancel(store: Store, claimed: Claim) -> None:
    stop(store, claimed.run.job_id)


def supersede(store: Store, claimed: Claim) -> None:
    put(store, **LANE)


def supersede_and_stop(store: Store, claimed: Claim) -> None:
    put(store, **LANE, on_running="cancel")


def finish_first(store: Store, claimed: Claim) -> None:
    store.run(finish, Finish(claimed.run, Outcome()))


def process(claimed: Claim) -> Begun:
    return Begun(claimed.run, 77, 123_450, "this boot", "/logs/job.log")


def rows(path: Path, spec: dict[str, Any], change: Change, known: bool, outcome: Outcome, unrecorded: bool) -> Any:
    store = Store(path)
    put(store, **spec)
    (claimed,) = claims(store)
    if spec.get("max_attempts"):
        end(store, claimed, BAD)
        tick(store, 60_000)
        (claimed,) = claims(store)
    change(store, claimed)
    store.now += 25
    begun = process(claimed) if unrecorded else None
    became = store.run(finish, Finish(claimed.run, outcome, begun, claimed.job if known else None))
    invariants.check(store)
    found = [became, *(store.rows(f"SELECT * FROM {table}") for table in TABLES)]
    store.close()
    return found


@pytest.mark.parametrize("outcome", [Outcome(), Outcome(result='{"n":2}'), BAD], ids=["none", "result", "error"])
@pytest.mark.parametrize("spec", [LANE, {**LANE, "user_tag": "t", "trace_id": "a" * 32, "max_attempts": 2}])
@pytest.mark.parametrize(
    "change",
    [
        nothing, report_line, report_progress, store_result, cancel, supersede, supersede_and_stop, finish_first,
    ],
)  # fmt: skip
def test_the_end_of_a_handler(tmp_path: Path, spec: dict[str, Any], change: Change, outcome: Outcome) -> None:
    read = rows(tmp_path / "read", spec, change, False, outcome, False)
    assert rows(tmp_path / "unread", spec, change, True, outcome, False) == read


@pytest.mark.parametrize("outcome", [Outcome(exit_code=0), Outcome(result="1", exit_code=0), BAD])
@pytest.mark.parametrize(
    ("change", "unrecorded"), [(nothing, True), (cancel, True), (store_result, True), (record_start, False)]
)
def test_the_end_of_a_command(tmp_path: Path, change: Change, unrecorded: bool, outcome: Outcome) -> None:
    read = rows(tmp_path / "read", COMMAND, change, False, outcome, unrecorded)
    assert rows(tmp_path / "unread", COMMAND, change, True, outcome, unrecorded) == read
