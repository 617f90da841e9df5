"""Every statement of the store compiles and none walks history: plans pinned, work counted, on a table full of it."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon import store as package
from semantica_daemon.store.reads import Listing, _statement
from semantica_daemon.store.writes.finish import Finish, finish
from tests.builders import NOW, Store, plan_of
from tests.store.history import fill
from tests.store.steps import GOOD, begin, claims, end, put, stop, tick

STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE TABLE)\b")


def constants() -> dict[str, str]:
    """module.NAME → SQL, of every module of the store."""
    found = {}
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, str) and STATEMENT.match(value) and "{" not in value:
                found[f"{info.name.rpartition('.')[2]}.{name}"] = value
    return found


SQL = constants()


class AnyValue(dict[str, Any]):
    """A value for whatever parameter a statement names."""

    def __missing__(self, name: str) -> Any:
        return 1


def values_for(sql: str) -> Any:
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    if numbered:
        return (1,) * max(numbered)
    return (1,) * sql.count("?") if "?" in sql else AnyValue()


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("old") / "meta.db")
    fill(store)
    yield store
    store.close()


def test_the_statements_were_found() -> None:
    assert len(SQL) > 40
    assert {"claim.POP", "transition.INSERT", "reads.GET_BY_ID", "find.LIVE_BY_TAG", "begin.BEGIN"} <= SQL.keys()


@pytest.mark.parametrize("name", SQL)
def test_every_statement_compiles(old: Store, name: str) -> None:
    old.connection.execute(f"EXPLAIN {SQL[name]}", values_for(SQL[name])).fetchall()


# Which index leads to the rows of jobs, for every statement that looks for some.
BY_KEY = "sqlite_autoindex_jobs_1"
PINNED: dict[str, tuple[str, ...]] = {
    "claim.POP": ("idx_jobs_pop",),
    "claim.LANE_RUNS": ("idx_jobs_lane_live",),
    "decide.KNOWN": ("idx_jobs_lane_generation",),
    "decide.LIVE_OF_LANE": ("idx_jobs_lane_live",),
    "decide.LIVE_OF_SUBJECT": ("idx_jobs_lane_live",),
    "promote.DUE": ("idx_jobs_due",),
    "promote.EXPIRED": ("idx_jobs_expires",),
    "promote.PAST_DEADLINE": ("idx_jobs_deadline",),
    "promote.NEXT_DUE": ("idx_jobs_due", "idx_jobs_expires", "idx_jobs_deadline"),
    "recover.ORPHANS": ("idx_jobs_running",),
    "reads.ORPHANS": ("idx_jobs_running",),
    "database.LAST_POSITION": ("idx_jobs_pop",),
    "find.LIVE_BY_TAG": ("idx_jobs_tag_live",),
    "find.LIVE_BY_GROUP": ("idx_jobs_group_live",),
    "find.LIVE_BY_SUBJECT": ("idx_jobs_subject_live",),
    "find.LIVE_BY_QUEUE": ("idx_jobs_state_queue",),
}
OF_JOBS = re.compile(r"\b(FROM|UPDATE|JOIN)\s+jobs\b")


@pytest.mark.parametrize("name", [name for name in SQL if OF_JOBS.search(SQL[name]) and name != "reads.GET"])
def test_jobs_are_found_by_an_index_and_history_is_never_walked(old: Store, name: str) -> None:
    plan = plan_of(old.connection, SQL[name], values_for(SQL[name]))
    for index in PINNED.get(name, (BY_KEY,)):
        assert index in plan, plan
    assert not re.search(r"SCAN jobs(?! USING (COVERING )?INDEX idx_jobs_(pop|due|expires|deadline|running))", plan), (
        plan
    )


RUNS = {
    "reads.LOGGED_RUN": "idx_job_runs_job (job_id=?)",
    "reads.ORPHANS": "sqlite_autoindex_job_runs_1 (run_id=?)",
    "recover.ORPHANS": "sqlite_autoindex_job_runs_1 (run_id=?)",
    "begin.BEGIN_RUN": "sqlite_autoindex_job_runs_1 (run_id=?)",
    "transition.END_RUN": "sqlite_autoindex_job_runs_1 (run_id=?)",
}


@pytest.mark.parametrize("name", RUNS)
def test_runs_are_found_by_their_job_or_their_id(old: Store, name: str) -> None:
    plan = plan_of(old.connection, SQL[name], values_for(SQL[name]))
    assert f"SEARCH job_runs USING INDEX {RUNS[name]}" in plan, plan
    assert "SCAN job_runs" not in plan, plan


@pytest.mark.parametrize("name", ["claim.POP", "promote.DUE", "promote.EXPIRED", "reads.EVENTS", "reads.EVENTS_OF_JOB"])
def test_what_is_read_in_order_is_not_sorted(old: Store, name: str) -> None:
    plan = plan_of(old.connection, SQL[name], values_for(SQL[name]))
    assert "TEMP B-TREE" not in plan, plan


def test_pop_is_one_search_of_its_index(old: Store) -> None:
    plan = plan_of(old.connection, SQL["claim.POP"], {"queue": "default"})
    assert plan == "SEARCH jobs USING INDEX idx_jobs_pop (queue=?)"


@pytest.mark.parametrize(
    "name", ["reads.EVENTS", "reads.EVENTS_OF_JOB", "reads.LOG_IS_CUT", "reads.STATS", "counts.LOAD"]
)
def test_streams_and_stats_do_not_touch_jobs(old: Store, name: str) -> None:
    plan = plan_of(old.connection, SQL[name], values_for(SQL[name]))
    assert not re.search(r"\bjobs\b", plan), plan
    assert name.startswith(("reads.STATS", "counts")) or "SCAN" not in plan, plan


# job.list: by rowid when nothing narrows it down, else by the filter's own index; (index, sorted)
LISTINGS: list[tuple[dict[str, Any], dict[str, str], str | None, bool]] = [
    ({}, {}, None, False),
    ({"job_type": ["t"]}, {}, None, False),
    ({"created_after": 5}, {}, None, False),
    ({"state": ["DONE"]}, {"state": "DONE", "queue": "default"}, "idx_jobs_state_queue", False),
    ({"queue": ["default"]}, {"state": "QUEUED", "queue": "default"}, "idx_jobs_state_queue", False),
    ({"user_tag": "tag"}, {}, "idx_jobs_user_tag", False),
    ({"user_tag": "tag", "state": ["DONE", "FAILED"]}, {}, "idx_jobs_user_tag", False),
    ({"chain_group_id": "group"}, {}, "idx_jobs_group", False),
    ({"subject_key": "s"}, {}, "idx_jobs_subject_generation", True),
    ({"subject_prefix": "s"}, {}, "idx_jobs_subject_generation", True),
]


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("cursor", [None, 500])
@pytest.mark.parametrize(("filters", "walk", "index", "in_order_of_its_own"), LISTINGS, ids=str)
def test_a_listing_uses_the_index_of_its_filter(
    old: Store, filters: dict[str, Any], walk: dict[str, str], index: str | None, in_order_of_its_own: bool,
    newest_first: bool, cursor: int | None,
) -> None:  # fmt: skip
    plan = plan_of(old.connection, *_statement(Listing(filters, newest_first, 50, cursor), walk))
    if index is None:
        assert plan == (
            "SCAN jobs"
            if cursor is None
            else f"SEARCH jobs USING INTEGER PRIMARY KEY (rowid{'<' if newest_first else '>'}?)"
        )
    else:
        assert f"SEARCH jobs USING INDEX {index} (" in plan, plan
    assert ("TEMP B-TREE" in plan) == in_order_of_its_own, plan


def work(store: Store, act: Callable[[], object]) -> int:
    """How many steps SQLite's machine takes; it knows nothing of time or of other processes."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    store.connection.set_progress_handler(count, 1)
    act()
    store.connection.set_progress_handler(None, 0)
    return steps


def measured(store: Store) -> dict[str, int]:
    """The verbs of a job's way, in the lane, queue, tag and group that all the history belongs to."""
    about: dict[str, Any] = {"subject_key": "s", "user_tag": "tag", "chain_group_id": "group"}
    steps = {}
    steps["enqueue"] = work(store, lambda: put(store, **about))
    steps["supersede"] = work(store, lambda: put(store, **about))
    steps["supersede subject"] = work(store, lambda: put(store, **about, supersede="subject", idempotency_key="k"))
    steps["existing"] = work(store, lambda: put(store, **about, supersede="subject", idempotency_key="k"))
    found = []
    steps["claim"] = work(store, lambda: found.extend(claims(store)))
    steps["finish"] = work(store, lambda: store.run(finish, Finish(found[0].run, GOOD), claiming=True))
    put(store, **about, schedule={"type": "AFTER", "delay_ms": 10}, ttl_ms=50, deadline=NOW + 100_000)
    steps["promote"] = work(store, lambda: tick(store, 10))
    steps["expire"] = work(store, lambda: tick(store, 50))
    for field, value in (("user_tag", "tag"), ("chain_group_id", "group"), ("subject_key", "s"), ("queue", "default")):
        put(store, **about)
        steps[f"cancel by {field}"] = work(store, partial(stop, store, field=field, value=value))
    return steps


def test_a_job_costs_the_same_on_an_empty_table_and_after_twenty_thousand(tmp_path: Path, old: Store) -> None:
    empty = Store(tmp_path / "empty.db")
    end(empty, begin(empty, subject_key="s"))
    expected = measured(empty)
    empty.close()
    found = measured(old)
    assert {name: steps for name, steps in found.items() if steps > expected[name] * 1.05 + 10} == {}
