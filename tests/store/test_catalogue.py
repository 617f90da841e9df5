"""Questions about templates and schedules: one by id or name, all by name, and when a schedule comes next."""

from collections.abc import AsyncIterator

import aiosqlite
import msgspec
import pytest

from semantica_daemon.errors import ScheduleNotFound, TemplateNotFound
from semantica_daemon.store import catalogue
from semantica_daemon.wire.schedule import ScheduleList, ScheduleParams
from semantica_daemon.wire.template import TemplateList, TemplateParams
from semantica_daemon.wire.types import Params
from tests.builders import NOW, Store
from tests.store.steps import tick
from tests.store.timetable import HOUR, MINUTE, made, schedule, switch, template


@pytest.fixture
async def db(forged: Store) -> AsyncIterator[aiosqlite.Connection]:
    async with aiosqlite.connect(f"file:{forged.path}?mode=ro", uri=True, isolation_level=None) as connection:
        yield connection


async def test_a_template_is_shown_as_it_was_given(store: Store, db: aiosqlite.Connection) -> None:
    kept = template(store, "nightly", payload={"a": 1})
    store.now += 5
    template(store, "nightly", payload={"a": 2})
    found = await catalogue.template(db, TemplateParams("nightly"))
    assert (found.template_id, found.name, found.created_at, found.updated_at) == (
        kept.template_id, "nightly", NOW, NOW + 5,
    )  # fmt: skip
    assert msgspec.json.decode(found.spec) == {"job_type": "semantica.noop", "payload": {"a": 2}}
    assert found.schedules == []
    assert await catalogue.template(db, TemplateParams(kept.template_id)) == found


async def test_templates_are_listed_by_name_with_who_uses_them(store: Store, db: aiosqlite.Connection) -> None:
    for name in ("b", "a", "c"):
        template(store, name)
    schedule(store, "one", template_id="b"), schedule(store, "two", template_id="b")
    found = (await catalogue.templates(db, Params())).templates
    assert [(one.name, sorted(one.schedules)) for one in found] == [("a", []), ("b", ["one", "two"]), ("c", [])]


async def test_an_id_goes_before_a_name(store: Store, db: aiosqlite.Connection) -> None:
    first = template(store, "z")
    template(store, first.template_id)
    assert (await catalogue.template(db, TemplateParams(first.template_id))).name == "z"
    one = schedule(store, "z", template_id="z")
    schedule(store, one.schedule_id, template_id="z")
    assert (await catalogue.schedule(db, ScheduleParams(one.schedule_id))).name == "z"


async def test_what_is_not_there_is_not_found(store: Store, db: aiosqlite.Connection) -> None:
    with pytest.raises(TemplateNotFound) as template_refused:
        await catalogue.template(db, TemplateParams("x"))
    with pytest.raises(ScheduleNotFound) as schedule_refused:
        await catalogue.schedule(db, ScheduleParams("x"))
    assert (template_refused.value.details, schedule_refused.value.details) == (
        {"template_id": "x"}, {"schedule_id": "x"},
    )  # fmt: skip
    assert await catalogue.templates(db, Params()) == TemplateList([])
    assert await catalogue.schedules(db, Params()) == ScheduleList([])


async def test_a_schedule_is_shown_with_its_template_and_its_next_times(store: Store, db: aiosqlite.Connection) -> None:
    of = template(store, "nightly")
    kept = schedule(store, "s", "0 3 * * *", template_id="nightly", timezone="Europe/Berlin", param_overrides={"a": 1})
    found = await catalogue.schedule(db, ScheduleParams("s"))
    assert (found.schedule_id, found.template_id, found.template_name) == (
        kept.schedule_id, of.template_id, "nightly",
    )  # fmt: skip
    assert (found.cron_expression, found.timezone, found.enabled) == ("0 3 * * *", "Europe/Berlin", True)
    assert (bytes(found.param_overrides), found.misfire, found.overlap) == (b'{"a":1}', "run_once", "queue")
    assert (found.last_triggered_at, found.last_job_id, found.created_at, found.updated_at) == (None, None, NOW, NOW)
    three = 18 * HOUR  # from 08:00 UTC to 02:00 UTC, which is 03:00 in Berlin in winter
    assert (found.upcoming, found.next_trigger_at) == ([NOW + three], NOW + three)


async def test_after_it_fired_it_shows_when_and_what(store: Store, db: aiosqlite.Connection) -> None:
    template(store)
    schedule(store)
    tick(store, MINUTE + 5)
    found = await catalogue.schedule(db, ScheduleParams("s"))
    assert (found.last_triggered_at, found.last_job_id) == (NOW + MINUTE + 5, made(store)[0]["id"])
    assert found.upcoming == [NOW + 2 * MINUTE]


async def test_a_disabled_one_has_no_next_times_and_no_overrides_are_null(
    store: Store, db: aiosqlite.Connection
) -> None:
    template(store)
    schedule(store)
    switch(store, False)
    found = await catalogue.schedule(db, ScheduleParams("s"))
    assert (found.enabled, found.next_trigger_at, found.upcoming) == (False, None, [])
    assert bytes(found.param_overrides) == b"null"


async def test_schedules_are_listed_by_name(store: Store, db: aiosqlite.Connection) -> None:
    template(store)
    for name in ("b", "c", "a"):
        schedule(store, name)
    assert [one.name for one in (await catalogue.schedules(db, Params())).schedules] == ["a", "b", "c"]


async def test_one_whose_zone_is_gone_does_not_hide_the_others(store: Store, db: aiosqlite.Connection) -> None:
    template(store)
    schedule(store, "a"), schedule(store, "b")
    store.connection.execute("UPDATE schedules SET timezone = 'Europe/Nowhere' WHERE name = 'a'")
    found = (await catalogue.schedules(db, Params())).schedules
    assert [(one.name, one.upcoming) for one in found] == [("a", [NOW + MINUTE]), ("b", [NOW + MINUTE])]
