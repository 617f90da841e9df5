"""template.put and template.delete, and jobs that are filled in by one: what the call says goes before."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.errors import InUse, InvalidParams, NameTaken, NoHandler, Refusal, TemplateNotFound
from semantica_daemon.store.writes import templates
from semantica_daemon.store.writes.enqueue import enqueue, enqueue_many, forecast
from semantica_daemon.wire.job import JobSpec
from semantica_daemon.wire.template import DeleteTemplateResult, TemplateParams
from tests.builders import NOW, Store, admitted
from tests.store.steps import claims, end, put, runs, states, tick
from tests.store.timetable import made, payloads, schedule, template


def stored(store: Store) -> list[dict[str, Any]]:
    return store.rows("SELECT * FROM templates ORDER BY name")


def test_a_template_is_kept_as_it_was_given_and_told(store: Store) -> None:
    kept = template(store, "nightly", payload={"a": 1}, priority=5)
    assert (kept.name, kept.created) == ("nightly", True)
    (row,) = stored(store)
    assert (row["template_id"], row["name"], row["created_at"], row["updated_at"]) == (
        kept.template_id, "nightly", NOW, NOW,
    )  # fmt: skip
    assert msgspec.json.decode(row["spec"]) == {"job_type": "semantica.noop", "payload": {"a": 1}, "priority": 5}
    assert payloads(store, "template.created") == [msgspec.to_builtins(kept)]


def test_the_same_name_again_replaces_its_spec(store: Store) -> None:
    first = template(store, priority=5)
    store.now += 5
    again = template(store, priority=6)
    assert (again.template_id, again.created) == (first.template_id, False)
    (row,) = stored(store)
    assert (row["created_at"], row["updated_at"], msgspec.json.decode(row["spec"])["priority"]) == (NOW, NOW + 5, 6)
    assert payloads(store, "template.changed") == [msgspec.to_builtins(again)]


@pytest.mark.parametrize("by", ["id", "name"])
def test_one_that_is_named_by_id_or_name_may_be_given_another_name(store: Store, by: str) -> None:
    first = template(store, "old")
    again = template(store, "new", replaces=first.template_id if by == "id" else "old")
    assert again.template_id == first.template_id
    assert [row["name"] for row in stored(store)] == ["new"]


def test_a_name_that_another_has_is_refused(store: Store) -> None:
    first, other = template(store, "a"), template(store, "b")
    with pytest.raises(NameTaken) as refused:
        template(store, "b", replaces=first.template_id)
    assert refused.value.details == {"template_id": other.template_id}
    assert [row["name"] for row in stored(store)] == ["a", "b"]


def test_a_name_is_looked_up_as_a_name_only(store: Store) -> None:
    """Even one that is another's id."""
    first = template(store, "a", priority=1)
    odd = template(store, first.template_id, priority=2)
    assert odd.template_id != first.template_id
    assert len(stored(store)) == 2


def test_an_id_goes_before_a_name(store: Store) -> None:
    first = template(store, "a", priority=1)
    template(store, first.template_id, priority=2)
    job = store.run(enqueue, admitted(template_id=first.template_id))
    assert store.job(job.job_id)["priority"] == 1


def test_an_id_that_nobody_has_is_not_found(store: Store) -> None:
    for act in (
        lambda: template(store, "a", replaces="x"),
        lambda: store.run(templates.delete, TemplateParams("x")),
        lambda: put(store, template_id="x"),
    ):
        with pytest.raises(TemplateNotFound) as refused:
            act()
        assert refused.value.details == {"template_id": "x"}
    assert (stored(store), store.rows("SELECT id FROM jobs")) == ([], [])


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("$.spec.generation", {"subject_key": "s", "generation": 1}),
        ("$.spec.idempotency_key", {"idempotency_key": "k"}),
        ("$.spec.template_id", {"template_id": "t"}),
        ("$.spec.schedule.scheduled_at", {"schedule": {"type": "AT", "scheduled_at": 5}}),
        ("$.spec.deadline", {"deadline": NOW}),
        ("$.spec.schedule.delay_ms", {"schedule": {"type": "AFTER"}}),
        ("$.spec.debounce_ms", {"debounce_ms": 5}),
        ("$.spec.env_vars", {"payload": {"argv": ["true"]}, "job_type": "c", "env_vars": {"API_TOKEN": "x"}}),
    ],
)
def test_what_could_never_become_more_than_one_job_is_refused_with_its_path(
    store: Store, path: str, spec: dict[str, Any]
) -> None:
    with pytest.raises(InvalidParams) as refused:
        template(store, **spec)
    assert refused.value.details == {"path": path}
    assert path in refused.value.message
    assert refused.value.hint
    assert (stored(store), store.events()) == ([], [])


def test_a_template_is_only_so_large(store: Store) -> None:
    with pytest.raises(InvalidParams) as refused:
        template(store, payload={"a": "ä" * (templates.MOST_BYTES // 2)})
    assert refused.value.details["path"] == "$.spec"
    template(store, payload={"a": "ä" * (templates.MOST_BYTES // 2 - 100)})


def test_one_whose_handler_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(NoHandler):
        template(store, job_type="nobody", execution_mode="IN_PROCESS")


def test_secrets_are_not_stored_not_even_in_the_refusal(store: Store) -> None:
    with pytest.raises(Refusal) as refused:
        template(store, job_type="c", payload={"argv": ["true"]}, env_vars={"API_TOKEN": "hush"})
    assert "API_TOKEN" in refused.value.message
    assert "hush" not in refused.value.message + refused.value.hint


def test_delete_by_id_or_name(store: Store) -> None:
    first, second = template(store, "a"), template(store, "b")
    assert store.run(templates.delete, TemplateParams("a")) == DeleteTemplateResult(first.template_id)
    assert store.run(templates.delete, TemplateParams(second.template_id)) == DeleteTemplateResult(second.template_id)
    assert stored(store) == []
    assert payloads(store, "template.deleted")[0] == {"template_id": first.template_id, "name": "a"}


def test_delete_is_refused_while_a_schedule_uses_it(store: Store) -> None:
    template(store)
    schedule(store, "one"), schedule(store, "two")
    with pytest.raises(InUse) as refused:
        store.run(templates.delete, TemplateParams("t"))
    assert refused.value.details == {"schedules": ["one", "two"]}
    assert len(stored(store)) == 1


@pytest.mark.parametrize("by", ["id", "name"])
def test_a_job_is_filled_in_by_its_template(store: Store, by: str) -> None:
    kept = template(store, payload={"a": 1, "b": 2}, queue="one", priority=5, max_attempts=4, user_tag="nightly")
    ack = put(store, template_id=kept.template_id if by == "id" else "t", payload={"b": 3}, priority=7)
    job = store.job(ack.job_id)
    assert (ack.queue, job["max_attempts"], job["user_tag"]) == ("one", 4, "nightly")
    assert (job["priority"], msgspec.json.decode(job["payload"])) == (7, {"a": 1, "b": 3}), "the call goes before"
    assert job["template_id"] == kept.template_id
    (claimed,) = claims(store)
    assert runs(store, ack.job_id)[0]["template_id"] == kept.template_id
    end(store, claimed)


def test_what_template_and_call_say_only_together_is_checked(store: Store) -> None:
    template(store, debounce_ms=100, subject_key="s")
    with pytest.raises(InvalidParams) as refused:
        put(store, template_id="t", max_wait_ms=5)
    assert refused.value.details == {"path": "$.max_wait_ms"}
    assert store.rows("SELECT id FROM jobs") == []


def test_the_schedule_of_a_call_replaces_that_of_the_template(store: Store) -> None:
    template(store, schedule={"type": "AFTER", "delay_ms": 50})
    later = put(store, template_id="t")
    at = put(store, template_id="t", schedule={"type": "AT", "scheduled_at": NOW + 9})
    assert [store.job(ack.job_id)["scheduled_at"] for ack in (later, at)] == [NOW + 50, NOW + 9]


def test_a_key_stands_for_the_call_and_not_for_what_the_template_says_by_now(store: Store) -> None:
    template(store, priority=1)
    first = put(store, template_id="t", idempotency_key="k")
    template(store, priority=2)
    again = put(store, template_id="t", idempotency_key="k")
    assert (again.job_id, again.existing) == (first.job_id, True)


def test_a_plan_and_many_at_once_are_filled_in_too(store: Store) -> None:
    template(store, schedule={"type": "AFTER", "delay_ms": 50})
    assert store.run(forecast, admitted(template_id="t")).state == "SCHEDULED"
    acks = store.run(enqueue_many, [admitted(template_id="t"), admitted()]).jobs
    assert [ack.state for ack in acks] == ["SCHEDULED", "QUEUED"]


def test_of_many_at_once_the_wrong_one_is_named(store: Store) -> None:
    template(store, debounce_ms=100, subject_key="s")
    with pytest.raises(InvalidParams) as refused:
        store.run(enqueue_many, [admitted(), admitted(template_id="t", max_wait_ms=5)])
    assert refused.value.details["path"] == "$.jobs[1].max_wait_ms"
    assert "`$.jobs[1].max_wait_ms`" in refused.value.message
    assert store.rows("SELECT id FROM jobs") == []


def test_many_at_once_are_none_when_one_names_a_template_that_is_not_there(store: Store) -> None:
    with pytest.raises(TemplateNotFound):
        store.run(enqueue_many, [admitted(), admitted(template_id="x")])
    assert store.rows("SELECT id FROM jobs") == []


def test_one_that_another_version_has_stored_is_refused_in_words(forged: Store) -> None:
    template(forged)
    forged.connection.execute("""UPDATE templates SET spec = '{"job_type": "semantica.noop", "unknown": 1}'""")
    with pytest.raises(InvalidParams, match="cannot be used") as refused:
        put(forged, template_id="t")
    assert refused.value.hint == "put it again"


def test_a_change_or_its_end_leaves_the_jobs_alone(store: Store) -> None:
    kept = template(store, priority=1)
    ack = put(store, template_id="t")
    before = store.job(ack.job_id)
    template(store, priority=2)
    store.run(templates.delete, TemplateParams("t"))
    assert store.job(ack.job_id) == before
    assert before["template_id"] == kept.template_id


def test_a_schedule_makes_its_next_job_of_what_the_template_says_then(store: Store) -> None:
    template(store, priority=1)
    schedule(store)
    tick(store, 60_000)
    template(store, priority=2)
    tick(store, 60_000)
    assert [job["priority"] for job in made(store)] == [1, 2]
    assert states(store, made(store)[0]["id"]) == ["QUEUED"]


def test_the_spec_of_a_job_is_whole_without_its_template(store: Store) -> None:
    """What is stored of the template is a JobSpec like any other."""
    template(store, payload={"a": 1}, schedule={"type": "CONDITION", "conditions": {"k": "v"}})
    (row,) = stored(store)
    assert msgspec.json.decode(row["spec"], type=JobSpec).schedule.conditions == {"k": "v"}
