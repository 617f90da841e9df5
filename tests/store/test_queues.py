"""queue.configure, pause and resume: durable, over the config, told to the stream."""

from pathlib import Path

import msgspec
import pytest

from semantica_daemon.errors import QueueInUse, QueueNotFound
from semantica_daemon.model.queue import QueueRules
from semantica_daemon.store.database import Command
from semantica_daemon.store.writes.enqueue import enqueue
from semantica_daemon.store.writes.queues import configure, delete, pause, resume
from semantica_daemon.wire.queue import (
    ConfigureParams,
    DeleteQueueParams,
    DeleteQueueResult,
    PauseParams,
    PauseState,
    QueueSettings,
    ResumeParams,
)
from tests.builders import NOW, Store, admitted
from tests.store.steps import GOOD, begin, claimed_ids, claims, end, put


def test_configure_changes_only_what_it_names(store: Store) -> None:
    assert store.run(configure, ConfigureParams("q", slots=1)) == QueueSettings("q", 1, "finish", 100_000)
    assert store.run(configure, ConfigureParams("q", max_queued=5)) == QueueSettings("q", 1, "finish", 5)
    assert store.run(configure, ConfigureParams("q", on_running="cancel")) == QueueSettings("q", 1, "cancel", 5)
    kinds = [event["event_type"] for event in store.events()]
    assert kinds == ["queue.configured"] * 3
    assert store.events()[-1]["queue"] == "q"


def test_what_was_configured_wins_over_the_config_file_also_after_a_restart(tmp_path: Path) -> None:
    path, rules = tmp_path / "meta.db", {"q": QueueRules(slots=5, on_running="cancel")}
    before = Store(path, slots=9, queues=rules)
    before.run(configure, ConfigureParams("q", slots=0))
    before.close()
    after = Store(path, slots=9, queues=rules)
    assert after.run(configure, ConfigureParams("q")) == QueueSettings("q", 0, "cancel", 100_000)
    put(after, queue="q")
    assert claims(after) == []
    after.close()


def test_a_pause_survives_a_restart(tmp_path: Path) -> None:
    before = Store(tmp_path / "meta.db")
    ack = put(before)
    before.run(pause, PauseParams())
    before.close()
    after = Store(tmp_path / "meta.db")
    assert claims(after) == []
    after.run(resume, ResumeParams())
    assert claimed_ids(after) == [ack.job_id]
    after.close()


def test_pausing_tells_until_when(store: Store) -> None:
    assert store.run(pause, PauseParams("q", 50)) == PauseState("q", True, NOW + 50)
    event = store.events()[-1]
    assert (event["event_type"], event["queue"], event["job_id"]) == ("queue.paused", "q", None)
    assert msgspec.json.decode(event["payload"]) == {"queue": "q", "paused": True, "resume_at": NOW + 50}


def test_pausing_again_keeps_since_when_and_renews_until_when(store: Store) -> None:
    store.run(pause, PauseParams("q", 50))
    store.now += 10
    assert store.run(pause, PauseParams("q")) == PauseState("q", True, None)
    (row,) = store.rows("SELECT * FROM queues")
    assert (row["paused_at"], row["resume_at"]) == (NOW, None)


@pytest.mark.parametrize("queue", ["q", None])
def test_resuming_what_is_not_paused_says_nothing_to_the_stream(store: Store, queue: str | None) -> None:
    assert store.run(resume, ResumeParams(queue)) == PauseState(queue, False)
    assert store.events() == []


def test_a_queue_stays_paused_while_all_are_and_says_so(store: Store) -> None:
    store.run(pause, PauseParams())
    store.run(pause, PauseParams("default"))
    assert store.run(resume, ResumeParams("default")).paused
    put(store)
    assert claims(store) == []


def test_resuming_all_resumes_those_paused_by_name_too(store: Store) -> None:
    ack = put(store)
    store.run(pause, PauseParams())
    store.run(pause, PauseParams("default"))
    assert not store.run(resume, ResumeParams()).paused
    assert claimed_ids(store) == [ack.job_id]


def test_a_pause_lets_what_runs_go_on_and_jobs_arrive(store: Store) -> None:
    claimed = begin(store)
    store.run(pause, PauseParams("default"))
    assert put(store).state == "QUEUED"
    assert store.job(claimed.run.job_id)["state"] == "RUNNING"
    assert store.committed is not None
    assert store.committed.stops == []


def test_a_configured_limit_holds_at_once(store: Store) -> None:
    store.run(configure, ConfigureParams("one", slots=2))
    for _ in range(3):
        put(store, queue="one")
    assert len(claims(store)) == 2


def test_a_deleted_queue_begins_anew_also_after_a_restart(tmp_path: Path) -> None:
    before = Store(tmp_path / "meta.db")
    before.run(configure, ConfigureParams("q", slots=0))
    first = begin(before, queue="p")
    end(before, first, GOOD)
    for queue in ("p", "q"):
        assert before.run(delete, DeleteQueueParams(queue)) == DeleteQueueResult(queue, False)
    with pytest.raises(QueueNotFound):
        before.run(delete, DeleteQueueParams("p"))
    before.close()
    after = Store(tmp_path / "meta.db", seed=1)
    assert after.run(configure, ConfigureParams("default")).slots == after.run(configure, ConfigureParams("q")).slots
    with pytest.raises(QueueNotFound):
        after.run(delete, DeleteQueueParams("p"))
    put(after, queue="p")
    (row,) = after.rows("SELECT done, removed FROM queue_counts WHERE queue = 'p'")
    assert row == {"done": 0, "removed": 0}
    after.close()


def test_a_queue_is_listed_with_its_ended_jobs_that_was_deleted_in_the_commit_of_its_first_job(store: Store) -> None:
    put(store, subject_key="s", generation=2)
    late = Command(enqueue, admitted(subject_key="s", generation=1, queue="p"))
    store.database.transact([late, Command(delete, DeleteQueueParams("p"))], store.now, None)
    assert store.rows("SELECT superseded, removed FROM queue_counts WHERE queue = 'p'") == [
        {"superseded": 1, "removed": 1}
    ]


def test_a_queue_with_live_jobs_is_not_deleted(store: Store) -> None:
    put(store, queue="p")
    with pytest.raises(QueueInUse, match="queue p has jobs that wait or run: 1"):
        store.run(delete, DeleteQueueParams("p"))


def test_of_a_queue_in_the_config_only_the_settings_are_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path / "meta.db", slots=9, queues={"q": QueueRules(slots=5)})
    store.run(configure, ConfigureParams("q", slots=1))
    assert store.run(delete, DeleteQueueParams("q")) == DeleteQueueResult("q", True)
    assert store.run(configure, ConfigureParams("q")).slots == 5
    assert store.run(delete, DeleteQueueParams("default")) == DeleteQueueResult("default", True)
    store.close()
