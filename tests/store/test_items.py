"""The view `items`, which shows jobs as the items of parallel work."""

from tests.builders import Store
from tests.store.steps import BAD, HOPELESS, begin, end, put, stop


def test_an_item_goes_from_pending_to_its_end(store: Store) -> None:
    done = begin(store)
    end(store, done)
    failed = begin(store)
    end(store, failed, HOPELESS)
    running = begin(store, max_attempts=2)
    waits, cancelled = put(store).job_id, put(store).job_id
    stop(store, cancelled)
    status = {row["id"]: row["status"] for row in store.rows("SELECT id, status FROM items")}
    expected = {done: "completed", failed: "failed", running: "processing"}
    assert status == {claim.run.job_id: text for claim, text in expected.items()} | {
        waits: "pending",
        cancelled: "cancelled",
    }
    end(store, running, BAD)
    (again,) = store.rows("SELECT status, attempts FROM items WHERE id = ?", running.run.job_id)
    assert (again["status"], again["attempts"]) == ("pending", 1)


def test_the_times_of_an_item_are_texts_in_utc(store: Store) -> None:
    claim = begin(store)
    end(store, claim)
    (item,) = store.rows("SELECT * FROM items")
    assert set(item) == {"id", "status", "worker_id", "started_at", "completed_at", "result", "error", "attempts"}
    (milliseconds,) = store.rows("SELECT strftime('%s', started_at) * 1000 AS at FROM items")
    assert milliseconds["at"] == store.now // 1000 * 1000
    assert item["completed_at"].endswith("Z")
