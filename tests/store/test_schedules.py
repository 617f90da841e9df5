"""schedule.put, enable, disable and delete: the stored row, the next time, and refusals."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.errors import InvalidParams, NameTaken, NoHandler, ScheduleNotFound, TemplateNotFound
from semantica_daemon.store.writes import schedules
from semantica_daemon.store.writes.templates import MOST_BYTES
from semantica_daemon.wire.schedule import DeleteScheduleResult, EnableResult, ScheduleParams
from tests.builders import NOW, Store
from tests.store.steps import claims, end, put, states, tick
from tests.store.timetable import HOUR, MINUTE, made, payloads, schedule, switch, template, the_schedule, trigger


@pytest.fixture(autouse=True)
def of_a_template(store: Store) -> None:
    template(store)


def test_put_stores_the_schedule_with_its_next_time_and_emits_it(store: Store) -> None:
    kept = schedule(store, "s", "0 * * * *", param_overrides={"a": 1})
    assert (kept.created, kept.next_trigger_at) == (True, NOW - NOW % HOUR + HOUR)
    row = the_schedule(store)
    assert (row["cron_expression"], row["timezone"], row["enabled"]) == ("0 * * * *", "UTC", 1)
    assert (row["misfire"], row["overlap"], row["param_overrides"]) == ("run_once", "queue", '{"a":1}')
    assert (row["last_triggered_at"], row["last_job_id"]) == (None, None)
    assert payloads(store, "schedule.created") == [msgspec.to_builtins(kept)]
    assert store.committed is not None
    assert store.committed.due == kept.next_trigger_at
    assert tick(store) == kept.next_trigger_at


def test_the_next_time_is_that_of_its_zone(store: Store) -> None:
    utc = schedule(store, "a", "0 12 * * *", timezone="UTC").next_trigger_at
    tokyo = schedule(store, "b", "0 12 * * *", timezone="Asia/Tokyo").next_trigger_at
    assert utc is not None
    assert tokyo is not None
    assert (tokyo - utc) % (24 * HOUR) == 15 * HOUR


def test_a_disabled_schedule_has_no_next_time(store: Store) -> None:
    assert schedule(store, enabled=False).next_trigger_at is None
    assert tick(store) is None
    tick(store, HOUR)
    assert made(store) == []


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("$.cron_expression", {"cron": "61 * * * *"}),
        ("$.cron_expression", {"cron": "0 0 30 2 *"}),
        ("$.timezone", {"timezone": "Europe/Nowhere"}),
    ],
)
def test_an_expression_that_never_fires_is_refused_with_its_path(
    store: Store, path: str, fields: dict[str, Any]
) -> None:
    before = store.events()
    with pytest.raises(InvalidParams) as refused:
        schedule(store, **fields)
    assert refused.value.details["path"] == path
    assert (store.rows("SELECT * FROM schedules"), store.events()) == ([], before)


def test_a_template_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(TemplateNotFound):
        schedule(store, template_id="x")


def test_overrides_that_its_template_cannot_run_with_are_refused_with_their_path(store: Store) -> None:
    template(store, "c", job_type="c", payload={"argv": ["true"]})
    with pytest.raises(InvalidParams) as refused:
        schedule(store, template_id="c", param_overrides={"argv": []})
    assert refused.value.details["path"] == "$.param_overrides.argv"
    assert "`$.param_overrides.argv" in refused.value.message


def test_a_handler_that_is_gone_is_refused(store: Store) -> None:
    store.connection.execute("""UPDATE templates SET spec = '{"job_type": "gone", "execution_mode": "IN_PROCESS"}'""")
    with pytest.raises(NoHandler):
        schedule(store)


@pytest.mark.parametrize("by", ["name", "id", "name as id"])
def test_the_same_one_again_is_changed(store: Store, by: str) -> None:
    first = schedule(store, overlap="skip")
    key = {"name": {}, "id": {"schedule_id": first.schedule_id}, "name as id": {"schedule_id": "s"}}[by]
    store.now += 5
    again = schedule(store, misfire="skip", **key)
    assert (again.schedule_id, again.created) == (first.schedule_id, False)
    row = the_schedule(store)
    assert (row["misfire"], row["overlap"], row["created_at"], row["updated_at"]) == ("skip", "queue", NOW, NOW + 5)
    assert payloads(store, "schedule.changed") == [msgspec.to_builtins(again)]


def test_by_its_id_it_may_be_given_another_name_unless_another_has_it(store: Store) -> None:
    first, other = schedule(store, "a"), schedule(store, "b")
    with pytest.raises(NameTaken) as refused:
        schedule(store, "b", schedule_id=first.schedule_id)
    assert refused.value.details == {"schedule_id": other.schedule_id}
    schedule(store, "c", schedule_id=first.schedule_id)
    assert the_schedule(store, "c")["schedule_id"] == first.schedule_id


def test_a_name_is_looked_up_as_a_name_only(store: Store) -> None:
    first = schedule(store, "a")
    assert schedule(store, first.schedule_id).created


@pytest.mark.parametrize("act", ["put", "trigger", "enable", "disable", "delete"])
def test_an_unknown_schedule_is_not_found(store: Store, act: str) -> None:
    acts: dict[str, Any] = {
        "put": lambda: schedule(store, schedule_id="x"),
        "trigger": lambda: trigger(store, "x"),
        "enable": lambda: switch(store, True, "x"),
        "disable": lambda: switch(store, False, "x"),
        "delete": lambda: store.run(schedules.delete, ScheduleParams("x")),
    }
    with pytest.raises(ScheduleNotFound) as refused:
        acts[act]()
    assert refused.value.details == {"schedule_id": "x"}


def test_an_edit_that_leaves_the_times_alone_does_not_lose_one_that_is_due(store: Store) -> None:
    first = schedule(store)
    store.now += MINUTE + 5
    assert schedule(store, misfire="skip").next_trigger_at == first.next_trigger_at
    tick(store)
    assert len(made(store)) == 1


@pytest.mark.parametrize("changed", [{"cron": "*/2 * * * *"}, {"timezone": "Asia/Tokyo"}])
def test_an_edit_of_the_times_counts_from_now(store: Store, changed: dict[str, Any]) -> None:
    schedule(store)
    store.now += MINUTE
    again = schedule(store, **changed)
    assert again.next_trigger_at == NOW + 2 * MINUTE
    tick(store)
    assert made(store) == []


def test_an_edit_leaves_jobs_already_made_alone(store: Store) -> None:
    schedule(store, param_overrides={"a": 1})
    tick(store, MINUTE)
    (before,) = made(store)
    schedule(store, param_overrides={"a": 2}, overlap="skip", cron="0 0 1 1 *")
    switch(store, False)
    tick(store)
    assert made(store) == [before]


def test_disabled_it_fires_no_more_and_enabled_only_from_then_on(store: Store) -> None:
    kept = schedule(store)
    assert switch(store, False) == EnableResult(kept.schedule_id, False, None)
    tick(store, 5 * MINUTE)
    assert made(store) == []
    switched = switch(store, True)
    assert (switched.enabled, switched.next_trigger_at) == (True, NOW + 6 * MINUTE)
    assert store.committed is not None
    assert store.committed.due == NOW + 6 * MINUTE
    tick(store, MINUTE)
    assert len(made(store)) == 1
    assert len(payloads(store, "schedule.disabled")) == len(payloads(store, "schedule.enabled")) == 1


@pytest.mark.parametrize("enabled", [True, False])
def test_put_again_leaves_enabled_as_it_was_unless_it_is_given(store: Store, enabled: bool) -> None:
    schedule(store, enabled=enabled)
    assert (schedule(store, misfire="skip").next_trigger_at is not None) == enabled
    assert the_schedule(store)["enabled"] == enabled
    assert (schedule(store, enabled=not enabled).next_trigger_at is None) == enabled
    assert the_schedule(store)["enabled"] != enabled


@pytest.mark.parametrize("change", [{"cron": "*/2 * * * *"}, {"timezone": "Asia/Tokyo"}, {"enabled": False}, {}])
def test_the_watermark_goes_with_the_times_that_it_belongs_to(store: Store, change: dict[str, Any]) -> None:
    """An edit of the times, and a break while it is off, begin anew; any other edit leaves the watermark alone."""
    schedule(store)
    tick(store, MINUTE)
    schedule(store, misfire="skip", **change)
    switch(store, True)
    row = the_schedule(store)
    assert (row["fired_from"], row["fired_to"]) == ((None, None) if change else (NOW + MINUTE, NOW + MINUTE))


def test_overrides_are_only_so_large(store: Store) -> None:
    with pytest.raises(InvalidParams) as refused:
        schedule(store, param_overrides={"a": "ä" * (MOST_BYTES // 2)})
    assert refused.value.details["path"] == "$.param_overrides"
    assert store.rows("SELECT * FROM schedules") == []


def test_enabling_an_enabled_schedule_emits_nothing_and_loses_no_due_time(store: Store) -> None:
    schedule(store)
    store.now += MINUTE
    assert switch(store, True).next_trigger_at == NOW + MINUTE, "it is due, and stays so"
    switch(store, False), switch(store, False)
    assert (len(payloads(store, "schedule.disabled")), payloads(store, "schedule.enabled")) == (1, [])


def test_a_deleted_schedule_fires_no_more_and_its_jobs_continue(store: Store) -> None:
    kept = schedule(store)
    tick(store, MINUTE), tick(store, MINUTE)
    first, second = (job["id"] for job in made(store))
    assert store.run(schedules.delete, ScheduleParams("s")) == DeleteScheduleResult(kept.schedule_id)
    assert payloads(store, "schedule.deleted") == [{"schedule_id": kept.schedule_id, "name": "s"}]
    assert tick(store, MINUTE) is None
    (claimed,) = claims(store)
    end(store, claimed)
    tick(store)
    assert states(store, first, second) == ["DONE", "QUEUED"], "the turn is passed on all the same"
    assert [store.job(job)["schedule_id"] for job in (first, second)] == [kept.schedule_id] * 2


def test_a_schedule_without_its_zone_is_repaired_by_put_or_enable(forged: Store) -> None:
    schedule(forged, timezone="Asia/Tokyo")
    for again in (lambda: schedule(forged, timezone="Asia/Tokyo"), lambda: switch(forged, True)):
        forged.connection.execute("UPDATE schedules SET next_trigger_at = NULL")
        assert again().next_trigger_at == NOW + MINUTE


def test_a_schedule_s_template_id_may_be_its_name_and_stays_when_that_changes(store: Store) -> None:
    kept = template(store, "u")
    schedule(store, template_id="u")
    template(store, "renamed", replaces="u")
    assert the_schedule(store)["template_id"] == kept.template_id
    tick(store, MINUTE)
    assert store.job(made(store)[0]["id"])["template_id"] == kept.template_id


def test_put_is_all_or_nothing(store: Store) -> None:
    put(store)
    before = store.rows("SELECT * FROM schedules"), store.events()
    with pytest.raises(InvalidParams):
        schedule(store, cron="never")
    assert (store.rows("SELECT * FROM schedules"), store.events()) == before
