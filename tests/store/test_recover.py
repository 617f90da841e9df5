"""The recovery matrix of docs/decisions.md, one test a row, and what the retry rules add."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.store.run_transition import Claim
from semantica_daemon.store.writes.recover import recover
from semantica_daemon.wire.run import Error
from tests.builders import Store
from tests.store import invariants
from tests.store.steps import BAD, COMMAND, LATER, begin, claims, end, event_types, make, put, runs, states, stop, tick


def restart(store: Store) -> Store:
    """The daemon died; another one opens its database."""
    store.connection.close()
    again = Store(store.path, slots=2)
    again.now = store.now + 1000
    return again


def recovered(store: Store, escaped: frozenset[str] = frozenset()) -> dict[str, str]:
    found: dict[str, str] = store.run(recover, escaped)
    return found


def write_end_of_run(store: Store, claimed: Claim, status: str, error: Error | None = None) -> None:
    """As if the daemon had died between the end of the run and the end of its job."""
    values = (status, store.now, msgspec.json.encode(error).decode() if error else None, claimed.run.run_id)
    store.connection.execute("UPDATE job_runs SET status = ?, finished_at = ?, error = ? WHERE run_id = ?", values)


def test_queued_jobs_resume_in_the_queue(forged: Store) -> None:
    ids = [put(forged, priority=priority).job_id for priority in (0, 5, 0)]
    waiting = put(forged, schedule=LATER).job_id
    after = restart(forged)
    assert recovered(after) == {}
    assert after.events()[-1]["event_type"] == "job.scheduled", "nothing to tell of"
    assert states(after, *ids, waiting) == ["QUEUED"] * 3 + ["SCHEDULED"]
    assert [claimed.run.job_id for claimed in claims(after)] == [ids[1], ids[0]]
    invariants.check(after)
    after.close()


def test_running_without_a_run_gets_one_that_failed(forged: Store) -> None:
    claimed = begin(forged)
    forged.connection.execute("DELETE FROM job_runs")
    after = restart(forged)
    assert recovered(after) == {claimed.run.job_id: "FAILED"}
    (run,) = runs(after, claimed.run.job_id)
    assert (run["run_id"], run["status"], run["started_at"]) == (claimed.run.run_id, "FAILED", forged.now)
    assert "E_ENGINE_CRASH" in run["error"]
    invariants.check(after)
    after.close()


def test_running_with_an_open_run_has_crashed(forged: Store) -> None:
    claimed = begin(forged)
    after = restart(forged)
    assert recovered(after) == {claimed.run.job_id: "FAILED"}
    job, (run,) = after.job(claimed.run.job_id), runs(after, claimed.run.job_id)
    assert (job["error_code"], job["error_class"], job["finished_at"]) == ("E_ENGINE_CRASH", "infra", after.now)
    assert (run["status"], run["finished_at"]) == ("FAILED", after.now)
    invariants.check(after)
    after.close()


def test_a_crashed_run_is_tried_again_while_attempts_are_left(forged: Store) -> None:
    claimed = begin(forged, max_attempts=2, backoff_base_ms=100)
    after = restart(forged)
    assert recovered(after) == {claimed.run.job_id: "SCHEDULED"}
    tick(after, 200)
    (again,) = claims(after)
    assert (again.run.job_id, again.run.attempt) == (claimed.run.job_id, 2)
    invariants.check(after)
    after.close()


@pytest.mark.parametrize(
    ("spec", "became"), [({"max_attempts": 2}, "SCHEDULED"), ({"on_interrupt": "requeue"}, "QUEUED")]
)
def test_a_crashed_run_without_its_row_is_tried_again_too(forged: Store, spec: dict[str, Any], became: str) -> None:
    claimed = begin(forged, **spec)
    forged.connection.execute("DELETE FROM job_runs")
    after = restart(forged)
    assert recovered(after) == {claimed.run.job_id: became}
    invariants.check(after)
    after.close()


@pytest.mark.parametrize("spec", [{"max_attempts": 5}, {"on_interrupt": "requeue"}])
def test_a_run_whose_processes_cannot_be_ended_is_never_run_again_beside_them(
    forged: Store, spec: dict[str, Any]
) -> None:
    escaped, other = begin(forged, **COMMAND, **spec), begin(forged, **COMMAND, **spec)
    after = restart(forged)
    became = recovered(after, frozenset({escaped.run.run_id}))
    assert (became[escaped.run.job_id], became[other.run.job_id] in ("QUEUED", "SCHEDULED")) == ("FAILED", True)
    job = after.job(escaped.run.job_id)
    assert (job["error_code"], job["error_class"]) == ("E_ENGINE_CRASH", "permanent")
    assert "could not be ended" in job["error_message"]
    invariants.check(after)
    after.close()


def test_an_accepted_cancel_holds_even_when_the_processes_cannot_be_ended(forged: Store) -> None:
    claimed = begin(forged, **COMMAND)
    stop(forged, claimed.run.job_id)
    after = restart(forged)
    assert recovered(after, frozenset({claimed.run.run_id})) == {claimed.run.job_id: "CANCELLED"}
    after.close()


def test_on_interrupt_requeue_puts_it_back_instead(forged: Store) -> None:
    claimed = begin(forged, on_interrupt="requeue")
    after = restart(forged)
    assert recovered(after) == {claimed.run.job_id: "QUEUED"}
    (run,) = runs(after, claimed.run.job_id)
    assert run["status"] == "INTERRUPTED"
    assert after.job(claimed.run.job_id)["attempts"] == 0
    invariants.check(after)
    after.close()


CRASH = Error("E_HANDLER", "transient", "it broke")
HOPELESS = Error("E_HANDLER", "permanent", "it never works")


@pytest.mark.parametrize(
    ("status", "error", "spec", "became"),
    [
        ("DONE", None, {}, "DONE"),
        ("FAILED", CRASH, {}, "FAILED"),
        ("FAILED", CRASH, {"max_attempts": 2}, "SCHEDULED"),
        ("FAILED", HOPELESS, {"max_attempts": 2}, "FAILED"),
        ("FAILED", None, {}, "FAILED"),
        ("CANCELLED", None, {"max_attempts": 2}, "CANCELLED"),
        ("SUPERSEDED", None, {"max_attempts": 2}, "SUPERSEDED"),
        ("INTERRUPTED", None, {"on_interrupt": "requeue"}, "QUEUED"),
    ],
)
def test_running_with_a_run_that_ended_follows_it(
    forged: Store, status: str, error: Error | None, spec: dict[str, Any], became: str
) -> None:
    claimed = begin(forged, **spec)
    write_end_of_run(forged, claimed, status, error)
    (before,) = runs(forged, claimed.run.job_id)
    after = restart(forged)
    assert recovered(after) == {claimed.run.job_id: became}
    assert states(after, claimed.run.job_id) == [became]
    assert runs(after, claimed.run.job_id) == [before], "the run is as it ended"
    invariants.check(after, counted=False)
    after.close()


@pytest.mark.parametrize("spec", [{"max_attempts": 5}, {"on_interrupt": "requeue"}])
def test_an_accepted_cancel_holds_also_at_recovery(forged: Store, spec: dict[str, Any]) -> None:
    claimed = begin(forged, **spec)
    stop(forged, claimed.run.job_id)
    after = restart(forged)
    assert recovered(after) == {claimed.run.job_id: "CANCELLED"}
    invariants.check(after)
    after.close()


@pytest.mark.parametrize("on_running", ["cancel", "finish"])
def test_an_older_generation_is_not_run_again(forged: Store, on_running: str) -> None:
    claimed = begin(forged, subject_key="s", max_attempts=5)
    newer = put(forged, subject_key="s", on_running=on_running)
    after = restart(forged)
    assert recovered(after) == {claimed.run.job_id: "SUPERSEDED"}
    assert after.job(claimed.run.job_id)["superseded_by"] == newer.job_id
    assert [one.run.job_id for one in claims(after)] == [newer.job_id]
    invariants.check(after)
    after.close()


def test_recovery_frees_the_slots_and_says_what_became_of_whom(forged: Store) -> None:
    first, second = begin(forged), begin(forged, max_attempts=3)
    after = restart(forged)
    jobs = recovered(after)
    event = after.events()[-1]
    assert (event["event_type"], event["job_id"]) == ("daemon.recovered", None)
    assert msgspec.json.decode(event["payload"]) == {"jobs": jobs}
    assert jobs == {first.run.job_id: "FAILED", second.run.job_id: "SCHEDULED"}
    assert event_types(after, second.run.job_id)[-1] == "job.retrying"
    put(after), put(after)
    assert len(claims(after)) == 2
    invariants.check(after)
    after.close()


def test_recovering_twice_changes_nothing_more(forged: Store) -> None:
    begin(forged, max_attempts=3)
    after = restart(forged)
    recovered(after)
    before = after.events()
    assert recovered(after) == {}
    assert after.events() == before
    after.close()


@pytest.mark.parametrize("over", ["DONE", "FAILED", "CANCELLED", "SUPERSEDED", "SKIPPED_TTL", "SKIPPED_DEADLINE"])
def test_what_is_over_is_left_alone(forged: Store, over: str) -> None:
    job_id = make(forged, over).job_id
    before = forged.job(job_id)
    after = restart(forged)
    assert recovered(after) == {}
    assert after.job(job_id) == before
    after.close()


def test_an_answer_from_before_the_crash_changes_nothing_after_it(forged: Store) -> None:
    claimed = begin(forged, max_attempts=3)
    after = restart(forged)
    recovered(after)
    before = after.events()
    assert end(after, claimed, BAD) is None
    assert after.events() == before
    after.close()
