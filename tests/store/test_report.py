"""What a run says on its way: progress on the job, lines in the stream, and nothing once it is not its run any more."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.errors import RunOver
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store.database import Verb
from semantica_daemon.store.run_transition import Claim
from semantica_daemon.store.writes.lifecycle import started, stopping
from semantica_daemon.store.writes.report import Line, Report, RunResult, keep_result, report, unresponsive
from semantica_daemon.wire.run import Progress
from tests.builders import Store
from tests.store.steps import BAD, begin, claims, end, event_types, tick


def test_progress_is_kept_on_the_job_and_told(store: Store) -> None:
    claimed = begin(store)
    store.run(report, Report(claimed.run, progress=Progress(12.5, "parse", 1, 8, "reading")))
    job = store.job(claimed.run.job_id)
    said = {name: job[f"progress_{name}"] for name in Progress.__struct_fields__}
    expected = {"percent": 12.5, "phase": "parse", "items_completed": 1, "items_total": 8, "message": "reading"}
    assert said == expected
    event = store.events()[-1]
    assert (event["event_type"], event["message"]) == ("job.progress", "reading")
    assert msgspec.json.decode(event["payload"]) == expected


def test_progress_changes_only_what_it_names(store: Store) -> None:
    claimed = begin(store)
    store.run(report, Report(claimed.run, progress=Progress(percent=10, phase="a")))
    store.run(report, Report(claimed.run, progress=Progress(percent=20)))
    store.run(report, Report(claimed.run, progress=Progress(items_completed=1, items_total=2, message="m")))
    store.run(report, Report(claimed.run, progress=Progress(phase="b")))
    job = store.job(claimed.run.job_id)
    kept = [job[f"progress_{name}"] for name in Progress.__struct_fields__]
    assert kept == [20, "b", 1, 2, "m"]


def test_lines_are_told_in_order_with_their_level(store: Store) -> None:
    claimed = begin(store)
    lines = (Line("one"), Line("two", "warn", {"n": 2}))
    store.run(report, Report(claimed.run, lines, Progress(percent=1)))
    told_now = [(event["event_type"], event["message"], event["level"]) for event in store.events()[2:]]
    assert told_now == [("job.log", "one", "info"), ("job.log", "two", "warn"), ("job.progress", "", "info")]


def test_a_run_that_does_not_stop_is_named_and_keeps_running(store: Store) -> None:
    claimed = begin(store)
    store.run(unresponsive, claimed.run)
    assert event_types(store, claimed.run.job_id)[-1] == "job.unresponsive"
    assert store.events()[-1]["level"] == "warn"
    assert store.job(claimed.run.job_id)["state"] == "RUNNING"


def test_a_result_is_kept_at_once_and_the_end_leaves_it_when_it_brings_none(store: Store) -> None:
    claimed = begin(store)
    store.run(keep_result, RunResult(claimed.run, '{"n":1}'))
    store.run(keep_result, RunResult(claimed.run, '{"n":2}'))
    assert store.job(claimed.run.job_id)["result_summary"] == '{"n":2}'
    end(store, claimed, Outcome())
    assert store.job(claimed.run.job_id)["result_summary"] == '{"n":2}'


def test_the_result_of_a_run_is_not_the_next_one_s(store: Store) -> None:
    claimed = begin(store, max_attempts=2)
    store.run(keep_result, RunResult(claimed.run, '{"n":1}'))
    end(store, claimed, BAD)
    tick(store, 2000)
    (again,) = claims(store)
    end(store, again, Outcome())
    assert store.job(claimed.run.job_id)["result_summary"] is None


def test_who_reports_by_a_token_is_told_that_its_run_is_over(store: Store) -> None:
    claimed = begin(store, max_attempts=2)
    heard = store.run(report, Report(claimed.run, (Line("one"),)))
    assert (heard.job_id, heard.attempt) == (claimed.run.job_id, 1)
    end(store, claimed, BAD)
    tick(store, 2000)
    claims(store)
    before = (store.job(claimed.run.job_id), store.events())
    late: list[tuple[Verb, Any]] = [
        (report, Report(claimed.run, (Line("late"),))),
        (report, Report(claimed.run, progress=Progress(percent=99))),
        (keep_result, RunResult(claimed.run, "7")),
    ]
    for verb, request in late:
        with pytest.raises(RunOver):
            store.run(verb, request)
    assert (store.job(claimed.run.job_id), store.events()) == before


def say_everything(store: Store, claimed: Claim) -> None:
    with pytest.raises(RunOver):
        store.run(report, Report(claimed.run, (Line("late"),), Progress(percent=99)))
    store.run(unresponsive, claimed.run)


@pytest.mark.parametrize("again", [False, True])
def test_an_old_run_is_not_heard(store: Store, again: bool) -> None:
    first = begin(store, max_attempts=2)
    end(store, first, BAD)
    if again:
        tick(store, 2000)
        assert len(claims(store)) == 1
    before = (store.job(first.run.job_id), store.events())
    say_everything(store, first)
    assert (store.job(first.run.job_id), store.events()) == before


def test_the_daemon_s_own_events_belong_to_no_job(store: Store) -> None:
    store.run(started, "1.2.3")
    store.run(stopping, "SIGTERM")
    found = [(event["event_type"], event["job_id"], event["job_sequence"]) for event in store.events()]
    assert found == [("daemon.started", None, None), ("daemon.stopping", None, None)]
