"""Overlap: with 'queue' a schedule's jobs take turns, with 'supersede' the newest wins; nobody waits for nobody."""

from typing import Any

import pytest

from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store.tx import StopRun
from semantica_daemon.store.writes.recover import recover
from tests.builders import NOW, Store
from tests.store.steps import BAD, GOOD, claims, emitted, end, event_types, put, states, stop, tick
from tests.store.timetable import MINUTE, made, payloads, schedule, template, trigger


def fired(store: Store, count: int, **fields: Any) -> list[str]:
    """The jobs of a schedule that has fired so often, none of them started."""
    schedule(store, **fields)
    for _ in range(count):
        tick(store, MINUTE)
    return [job["id"] for job in made(store)]


def run_next(store: Store) -> str:
    """The one job that can be claimed is run; the next one's turn comes by that."""
    (claimed,) = claims(store)
    end(store, claimed, GOOD)
    tick(store)
    return claimed.run.job_id


def turns(store: Store) -> list[tuple[str, int]]:
    return [(job["state"], awaits_turn(store, job["id"])) for job in made(store)]


def awaits_turn(store: Store, job_id: str) -> int:
    sql = "SELECT 1 FROM job_conditions WHERE job_id = ? AND key LIKE 'semantica:turn:%' AND waiting = 1"
    return len(store.rows(sql, job_id))


def test_one_runs_at_a_time_in_the_order_they_were_made(store: Store) -> None:
    template(store)
    jobs = fired(store, 3)
    assert turns(store) == [("QUEUED", 0), ("SCHEDULED", 1), ("SCHEDULED", 1)]
    assert [run_next(store) for _ in jobs] == jobs
    assert turns(store) == [("DONE", 0)] * 3
    assert event_types(store, jobs[1]) == ["job.scheduled", "job.queued", "job.started", "job.done"]


def test_the_commit_that_ends_a_job_makes_the_next_one_queued(store: Store) -> None:
    template(store)
    _, second = fired(store, 2)
    (claimed,) = claims(store)
    end(store, claimed)
    assert states(store, second) == ["QUEUED"]


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "skipped", "crashed"])
def test_however_a_job_ends_the_turn_is_passed_on(store: Store, outcome: str) -> None:
    template(store, ttl_ms=MINUTE + 5)
    first, second = fired(store, 2)
    if outcome == "failed":
        end(store, claims(store)[0], BAD)
    elif outcome == "cancelled":
        stop(store, first)
    elif outcome == "skipped":
        tick(store, 5)
        assert states(store, first) == ["SKIPPED_TTL"]
    else:
        claims(store)
        store.run(recover, frozenset())
    tick(store)
    assert states(store, second) == ["QUEUED"]


def test_a_job_that_is_tried_again_or_put_back_keeps_its_turn(store: Store) -> None:
    template(store, max_attempts=2)
    first, second = fired(store, 2)
    end(store, claims(store)[0], BAD)
    tick(store)
    assert states(store, first, second) == ["SCHEDULED", "SCHEDULED"]
    tick(store, 2000)
    end(store, claims(store)[0], BAD)
    tick(store)
    assert states(store, first, second) == ["FAILED", "QUEUED"]


def test_who_is_cancelled_while_it_waits_has_no_turn_to_pass_on(store: Store) -> None:
    template(store)
    first, second, third = fired(store, 3)
    stop(store, second)
    tick(store)
    assert states(store, first, second, third) == ["QUEUED", "CANCELLED", "SCHEDULED"]
    assert run_next(store) == first
    assert states(store, third) == ["QUEUED"]


def test_its_turn_is_one_of_the_things_it_waits_for(store: Store) -> None:
    template(store, schedule={"type": "CONDITION", "wait_for_event": "e"})
    first, second = fired(store, 2)
    assert sorted(emitted(store, "e")) == sorted([first, second])
    tick(store)
    assert states(store, first, second) == ["QUEUED", "SCHEDULED"]
    assert run_next(store) == first
    assert states(store, second) == ["QUEUED"]


def test_a_turn_that_comes_before_its_event_is_kept(store: Store) -> None:
    template(store, schedule={"type": "CONDITION", "wait_for_event": "e"})
    first, second = fired(store, 2)
    stop(store, first)
    tick(store)
    assert (states(store, second), store.job(second)["unmet"]) == (["SCHEDULED"], 1)
    emitted(store, "e")
    tick(store)
    assert states(store, second) == ["QUEUED"]


def test_a_job_that_replaces_the_one_it_was_to_wait_for_has_its_turn(store: Store) -> None:
    """The template names a subject: newest wins inside its lane, and the turn goes over."""
    template(store, subject_key="lane")
    jobs = fired(store, 3, overlap="queue")
    assert states(store, *jobs) == ["SUPERSEDED", "SUPERSEDED", "QUEUED"]
    assert run_next(store) == jobs[2]


def test_behind_a_running_one_only_the_newest_of_a_lane_waits_for_its_turn(store: Store) -> None:
    template(store, subject_key="lane")
    (first,) = fired(store, 1)
    (running,) = claims(store)
    tick(store, MINUTE), tick(store, MINUTE)
    assert turns(store) == [("RUNNING", 0), ("SUPERSEDED", 0), ("SCHEDULED", 1)]
    end(store, running)
    tick(store)
    assert [job["state"] for job in made(store)] == ["DONE", "SUPERSEDED", "QUEUED"]
    assert store.job(first)["stale"] == 1


def test_one_that_another_job_supersedes_passes_its_turn_on(store: Store) -> None:
    template(store, "u", subject_key="lane")
    schedule(store, template_id="u")
    tick(store, MINUTE)
    template(store, "u")
    tick(store, MINUTE)
    first, second = (job["id"] for job in made(store))
    put(store, subject_key="lane")
    tick(store)
    assert states(store, first, second) == ["SUPERSEDED", "QUEUED"]


def test_schedules_of_one_template_do_not_wait_for_each_other_nor_for_jobs_by_hand(store: Store) -> None:
    template(store)
    put(store, template_id="t")
    schedule(store, "one"), schedule(store, "two")
    tick(store, MINUTE)
    assert [job["state"] for name in ("one", "two") for job in made(store, name)] == ["QUEUED", "QUEUED"]


def test_a_trigger_waits_for_its_turn_as_well(store: Store) -> None:
    template(store)
    (first,) = fired(store, 1)
    done = trigger(store)
    assert done.job is not None
    assert (done.job.state, done.skipped) == ("SCHEDULED", None)
    assert run_next(store) == first
    assert states(store, done.job.job_id) == ["QUEUED"]


def test_those_that_wait_keep_their_turn_when_the_schedule_is_edited_to_skip(store: Store) -> None:
    template(store)
    first, second = fired(store, 2)
    schedule(store, overlap="skip")
    tick(store, MINUTE)
    assert len(made(store)) == 2
    assert [event["reason"] for event in payloads(store, "schedule.skipped")] == ["overlap"]
    assert [run_next(store), run_next(store)] == [first, second]


def test_those_that_wait_are_superseded_when_the_schedule_is_edited_to_that(store: Store) -> None:
    template(store)
    first, second = fired(store, 2)
    schedule(store, overlap="supersede")
    tick(store, MINUTE)
    assert [job["state"] for job in made(store)] == ["SUPERSEDED", "SUPERSEDED", "QUEUED"]
    winner = made(store)[2]["id"]
    assert [store.job(job)["superseded_by"] for job in (first, second)] == [winner, winner]


def test_with_skip_the_next_fires_when_the_one_before_has_ended(store: Store) -> None:
    template(store)
    (first,) = fired(store, 2, overlap="skip")
    (skipped,) = payloads(store, "schedule.skipped")
    assert (skipped["trigger_at"], skipped["reason"]) == (NOW + 2 * MINUTE, "overlap")
    assert run_next(store) == first
    tick(store, MINUTE)
    assert len(made(store)) == 2


def test_with_supersede_the_newest_wins_and_names_itself(store: Store) -> None:
    template(store)
    jobs = fired(store, 3, overlap="supersede")
    assert states(store, *jobs) == ["SUPERSEDED", "SUPERSEDED", "QUEUED"]
    assert [store.job(job)["superseded_by"] for job in jobs] == [jobs[1], jobs[2], None]


@pytest.mark.parametrize("on_running", ["finish", "cancel"])
def test_with_supersede_a_running_one_makes_way_as_its_template_says(store: Store, on_running: str) -> None:
    template(store, on_running=on_running, max_attempts=3)
    schedule(store, overlap="supersede")
    tick(store, MINUTE)
    (running,) = claims(store)
    tick(store, MINUTE)
    assert store.committed is not None
    stops = [StopRun(running.run.run_id, "supersede")] if on_running == "cancel" else []
    assert store.committed.stops == stops
    first, second = made(store)
    assert (first["state"], first["stale"], first["superseded_by"]) == ("RUNNING", 1, second["id"])
    assert (second["state"], awaits_turn(store, second["id"])) == ("SCHEDULED", 1), "never two at once"
    assert end(store, running, BAD) == "SUPERSEDED"
    tick(store)
    assert [job["state"] for job in made(store)] == ["SUPERSEDED", "QUEUED"]


def test_with_supersede_the_newest_waits_until_one_that_is_left_to_finish_is_done(store: Store) -> None:
    template(store)
    schedule(store, overlap="supersede")
    tick(store, MINUTE)
    (running,) = claims(store)
    tick(store, MINUTE), tick(store, MINUTE)
    assert [job["state"] for job in made(store)] == ["RUNNING", "SUPERSEDED", "SCHEDULED"]
    assert claims(store) == []
    assert end(store, running, GOOD) == "DONE"
    tick(store)
    assert [claimed.run.job_id for claimed in claims(store)] == [made(store)[2]["id"]]


def interrupted(store: Store, outcome: Outcome = BAD) -> bool:
    """It fires behind a running one; whether that is interrupted, and ends so."""
    (running,) = claims(store)
    tick(store, MINUTE)
    assert store.committed is not None
    stopped = bool(store.committed.stops)
    assert end(store, running, outcome) == ("SUPERSEDED" if stopped or outcome is BAD else "DONE")
    tick(store)
    return stopped


def test_after_a_few_interruptions_in_a_row_one_is_left_to_finish(store: Store) -> None:
    template(store, on_running="cancel", max_interrupts=2, max_attempts=2)
    schedule(store, overlap="supersede")
    tick(store, MINUTE)
    assert [interrupted(store), interrupted(store), interrupted(store, GOOD)] == [True, True, False]
    assert [interrupted(store), interrupted(store), interrupted(store, GOOD)] == [True, True, False]


def test_one_run_that_is_slow_to_end_counts_as_one_interruption(store: Store) -> None:
    template(store, on_running="cancel", max_interrupts=2)
    schedule(store, overlap="supersede")
    tick(store, MINUTE)
    (slow,) = claims(store)
    for _ in range(4):
        tick(store, MINUTE)
    assert end(store, slow, BAD) == "SUPERSEDED"
    tick(store)
    assert store.job(slow.run.job_id)["superseded_by"] == made(store)[1]["id"], "by who asked it to stop"
    assert interrupted(store)


@pytest.mark.parametrize("asked_by", ["the schedule", "somebody"])
def test_one_that_is_being_stopped_stays_what_it_was_stopped_for(store: Store, asked_by: str) -> None:
    template(store, on_running="cancel", max_interrupts=1)
    schedule(store, overlap="supersede")
    tick(store, MINUTE)
    (slow,) = claims(store)
    if asked_by == "somebody":
        stop(store, slow.run.job_id)
    else:
        tick(store, MINUTE)
    before = store.job(slow.run.job_id)
    tick(store, MINUTE)
    assert store.job(slow.run.job_id) == before
    assert end(store, slow, BAD) == ("CANCELLED" if asked_by == "somebody" else "SUPERSEDED")


def test_in_a_lane_the_planner_s_rule_holds_and_nobody_is_counted_twice(store: Store) -> None:
    template(store, on_running="cancel", max_interrupts=1, subject_key="lane")
    schedule(store, overlap="supersede")
    tick(store, MINUTE)
    assert [interrupted(store), interrupted(store, GOOD), interrupted(store)] == [True, False, True]
