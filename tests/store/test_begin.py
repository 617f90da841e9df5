"""A command is claimed first and started later: what is written between, at that moment, and when it never comes."""

import msgspec
import pytest

from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store.run_transition import Begun, Claim
from semantica_daemon.store.writes.begin import begin
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.wire.run import Error
from tests.builders import Store
from tests.store.steps import BAD, COMMAND, GOOD, claims, end, event_types, put, runs, states, stop, tick
from tests.store.steps import begin as claimed_now

UNSTARTED = Outcome(error=Error("E_SPAWN", "infra", "no process to be had", {"errno": 11}), unstarted=True)


def born(store: Store, claimed: Claim, pid: int = 77) -> None:
    store.run(begin, Begun(claimed.run, pid, 123_450, "this boot", "/logs/job.log"))


def test_a_claimed_command_has_a_run_but_nobody_is_told_that_it_started(store: Store) -> None:
    claimed = claimed_now(store, **COMMAND)
    assert (claimed.mode, claimed.spec.leftovers, claimed.run.run_number) == ("SUBPROCESS", "end", 1)
    assert states(store, claimed.run.job_id) == ["RUNNING"]
    assert event_types(store, claimed.run.job_id) == ["job.queued"]
    (run,) = runs(store, claimed.run.job_id)
    assert (run["status"], run["pid"], run["pid_started_at"], run["boot_id"]) == ("RUNNING", None, None, None)


def test_once_its_process_exists_its_identity_is_written_and_it_is_told(store: Store) -> None:
    claimed = claimed_now(store, **COMMAND)
    born(store, claimed)
    (run,) = runs(store, claimed.run.job_id)
    assert (run["pid"], run["pid_started_at"], run["boot_id"]) == (77, 123_450, "this boot")
    job = store.job(claimed.run.job_id)
    assert (job["pid"], job["log_path"], run["log_path"]) == (77, "/logs/job.log", "/logs/job.log")
    event = store.events()[-1]
    assert event["event_type"] == "job.started"
    facts = {"run_id": claimed.run.run_id, "attempt": 1, "pid": 77}
    assert msgspec.json.decode(event["payload"]) == facts


@pytest.mark.parametrize(("outcome", "state", "last"), [(GOOD, "DONE", "job.done"), (BAD, "SCHEDULED", "job.retrying")])
def test_a_start_that_is_recorded_with_the_end_is_told_before_it(
    store: Store, outcome: Outcome, state: str, last: str
) -> None:
    claimed = claimed_now(store, **COMMAND, max_attempts=2)
    begun = Begun(claimed.run, 77, 123_450, "this boot", "/logs/job.log")
    assert store.run(finish, Finish(claimed.run, outcome, begun, claimed.job)) == state
    job = store.job(claimed.run.job_id)
    (run,) = runs(store, claimed.run.job_id)
    assert (job["state"], job["pid"], job["log_path"]) == (state, 77, "/logs/job.log")
    assert (run["pid"], run["pid_started_at"], run["boot_id"]) == (77, 123_450, "this boot")
    assert event_types(store, claimed.run.job_id) == ["job.queued", "job.started", last]
    assert [event["job_sequence"] for event in store.events() if event["job_number"]] == [1, 2, 3]


def test_the_identity_of_a_process_is_written_once(forged: Store) -> None:
    claimed = claimed_now(forged, **COMMAND)
    born(forged, claimed)
    with pytest.raises(Exception, match="named once"):
        born(forged, claimed, pid=78)
    assert [run["pid"] for run in runs(forged, claimed.run.job_id)] == [77]


@pytest.mark.parametrize("again", [False, True])
def test_a_process_of_an_old_run_is_not_the_job_s(store: Store, again: bool) -> None:
    claimed = claimed_now(store, **COMMAND, max_attempts=2)
    end(store, claimed, BAD)
    if again:
        tick(store, 2000)
        assert len(claims(store)) == 1
    before = (store.job(claimed.run.job_id), store.events(), runs(store, claimed.run.job_id))
    born(store, claimed)
    assert (store.job(claimed.run.job_id), store.events(), runs(store, claimed.run.job_id)) == before


def test_the_next_run_begins_with_no_pid_and_no_log(store: Store) -> None:
    claimed = claimed_now(store, **COMMAND, max_attempts=2)
    born(store, claimed)
    end(store, claimed, BAD)
    tick(store, 2000)
    (again,) = claims(store)
    job = store.job(claimed.run.job_id)
    assert (again.run.run_number, again.run.attempt, job["pid"], job["log_path"]) == (2, 2, None, None)
    assert event_types(store, claimed.run.job_id) == ["job.queued", "job.started", "job.retrying", "job.queued"]


def test_a_claim_that_never_started_is_given_back_twice_and_fails_the_third_time(store: Store) -> None:
    job_id = put(store, **COMMAND).job_id
    for number, became in enumerate(("QUEUED", "QUEUED", "FAILED"), 1):
        (claimed,) = claims(store)
        assert end(store, claimed, UNSTARTED) == became
        job = store.job(job_id)
        given_back = became == "QUEUED"
        assert (job["claim_attempts"], job["attempts"], job["run_count"]) == (number, 0 if given_back else 1, number)
    assert (job["error_code"], event_types(store, job_id).count("job.started")) == ("E_SPAWN", 0)
    assert [run["status"] for run in runs(store, job_id)] == ["INTERRUPTED", "INTERRUPTED", "FAILED"]


def test_a_claim_that_never_started_takes_no_attempt_from_the_job(store: Store) -> None:
    job_id = put(store, **COMMAND, max_attempts=1).job_id
    (claimed,) = claims(store)
    end(store, claimed, UNSTARTED)
    (again,) = claims(store)
    assert again.run.attempt == 1
    born(store, again)
    assert end(store, again, GOOD) == "DONE"
    assert store.job(job_id)["attempts"] == 1


def test_a_cancelled_claim_that_never_started_is_cancelled(store: Store) -> None:
    claimed = claimed_now(store, **COMMAND)
    stop(store, claimed.run.job_id)
    assert end(store, claimed, UNSTARTED) == "CANCELLED"
