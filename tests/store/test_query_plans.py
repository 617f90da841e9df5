"""Every statement of the store compiles and none walks history: plans pinned on a table full of it."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

from semantica_daemon import store as package
from semantica_daemon.store.listing import ended_statement, statement
from tests.builders import Store, plan_of
from tests.cases import each_case
from tests.store.history import fill

STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE TABLE)\b")


def constants() -> dict[str, str]:
    """module.NAME → SQL, of every module of the store; module.NAME.key for the values of a dict."""
    found = {}
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(info.name)
        public = {name: value for name, value in vars(module).items() if name.isupper() and not name.startswith("_")}
        for name, value in public.items():
            texts = {f"{name}.{key}": text for key, text in value.items()} if isinstance(value, dict) else {name: value}
            for full_name, text in texts.items():
                if isinstance(text, str) and STATEMENT.match(text) and "{" not in text:
                    found[f"{info.name.rpartition('.')[2]}.{full_name}"] = text
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
    assert {"claim.POP", "run_transition.START", "reads.STATS", "selected.LIVE_BY.queue", "begin.BEGIN"} <= SQL.keys()


@each_case("name", SQL)
def test_every_statement_compiles(old: Store, name: str) -> None:
    old.connection.execute(f"EXPLAIN {SQL[name]}", values_for(SQL[name])).fetchall()


# Which index leads to the rows of jobs, for every statement that looks for some.
BY_ID, BY_NUMBER = "sqlite_autoindex_jobs_1", "INTEGER PRIMARY KEY (rowid=?)"
PINNED: dict[str, tuple[str, ...]] = {
    "claim.POP": ("idx_jobs_pop",),
    "claim.POP_PLAIN": ("idx_jobs_pop",),
    "ready.HEADS": ("idx_jobs_pop",),
    "external.HEADS": ("idx_jobs_blocked",),
    "worker_claim.POP": ("idx_jobs_blocked",),
    "worker_runs.OF_RUN": ("SEARCH leases USING PRIMARY KEY",),
    "worker_runs.OF_TOKEN": ("sqlite_autoindex_leases_2",),
    "worker_runs.OF_WORKER": ("idx_leases_worker",),
    "worker_runs.EXPIRED": ("idx_leases_expires",),
    "counts.LOAD_USED_SLOTS": ("idx_jobs_running",),
    "rooms.RUNNING": ("idx_jobs_running",),
    "rooms.BETWEEN_ATTEMPTS": ("idx_jobs_group_live (chain_group_id=?)",),
    "rooms.STOP": ("SEARCH jobs",),
    "groups.COUNTS": ("idx_jobs_group (chain_group_id=?)", "idx_job_retries_first", BY_ID),
    "groups.JOBS": ("idx_jobs_group (chain_group_id=? AND rowid>?)",),
    "groups.IS_LIVE": ("idx_jobs_group_live (chain_group_id=?)",),
    "groups.EXISTS": ("idx_jobs_group (chain_group_id=?)",),
    "groups.ALL_LABELS": ("COVERING INDEX idx_jobs_group (chain_group_id>?)",),
    "groups.LIVE_LABELS": ("INDEX idx_jobs_group_live (chain_group_id>?)",),
    "groups.NOT_STARTED": ("idx_jobs_group_live (chain_group_id=? AND rowid<?)",),
    "flows.QUEUED": ("idx_jobs_pop (queue=?)",),
    "flows.FIRST_WITHOUT_KEY": ("idx_jobs_pop",),
    "decide.KNOWN": ("idx_jobs_lane_generation",),
    "decide.LIVE_OF_LANE": ("idx_jobs_subject_live",),
    "decide.LIVE_OF_SUBJECT": ("idx_jobs_subject_live",),
    "decide.LIVE_TO_KEEP": ("idx_jobs_subject_live",),
    "decide.ANY_OF_LANE": ("idx_jobs_subject_live",),
    "decide.OLDEST_APPENDED": ("idx_jobs_subject_live",),
    "decide.APPENDS_IN_ROOM": ("idx_jobs_subject_live",),
    "decide.SAME_GENERATION": ("idx_jobs_subject_generation",),
    "promote.DUE": ("idx_jobs_due",),
    "promote.EXPIRED": ("idx_jobs_expires",),
    "promote.PAST_DEADLINE": ("idx_jobs_deadline",),
    "promote.NEXT_DUE": ("idx_jobs_expires", "idx_jobs_deadline"),
    "needs.FIRST_DUE": ("idx_jobs_due",),
    "needs.AT_ONCE": ("idx_jobs_queued_for_machine", "idx_jobs_running"),
    "needs.NEEDS": ("idx_jobs_due", "idx_jobs_queued_for_machine", "idx_jobs_running"),
    "gates.WAITING": ("idx_job_conditions_arrival", BY_ID),
    "gates.LIVE_OF_SCHEDULE": ("idx_jobs_schedule_live",),
    "gates.WAITING_FOR_TURN": ("idx_job_conditions_lookup", BY_ID),
    "gates.LANE_IS_TAKEN": ("idx_jobs_subject_live",),
    "gates.NEXT_BLOCKED": ("idx_jobs_blocked",),
    "lost.QUEUED_NEEDING_MACHINE": ("idx_jobs_queued_for_machine",),
    "lost.RUNNING_UNTIL_LOST": ("idx_jobs_running",),
    "fire.OTHERS": ("idx_jobs_schedule_live",),
    "graph.MEMBERS": ("idx_jobs_group",),
    "graph.LIVE_CHILDREN": ("idx_jobs_running", "idx_job_conditions_lookup", "idx_jobs_pop"),
    "standing.HIGHER": ("idx_jobs_pop",),
    "standing.LANE_HOLDER": ("idx_jobs_subject_live",),
    "standing.LANE_AHEAD": ("idx_jobs_blocked",),
    "standing.BEFORE": ("idx_jobs_pop",),
    "standing.RUNNING": ("idx_jobs_running",),
    "standing_rooms.BETWEEN_ATTEMPTS": ("idx_jobs_group_live (chain_group_id=?)",),
    "standing.EARLIER": ("idx_jobs_schedule_live",),
    "recover.ORPHANS": ("idx_jobs_running",),
    "reads.ORPHANS": ("idx_jobs_running",),
    "reads.EVENTS": (BY_NUMBER,),
    "reads.STATS": ("idx_jobs_pop", "idx_jobs_scheduled", "idx_jobs_running"),
    "counts.LIVE_COUNTS": ("idx_jobs_pop", "idx_jobs_scheduled", "idx_jobs_running"),
    "clock.SHIFT.delays": ("idx_jobs_scheduled",),
    "clock.SHIFT.debounces": ("idx_jobs_scheduled",),
    "clock.SHIFT.debounces of queued jobs": ("idx_jobs_pop",),
    "clock.SHIFT.ttls": ("idx_jobs_expires",),
    "environments.ADD_WITHOUT_SECRETS": ("idx_jobs_pop", "idx_jobs_scheduled"),
    "environments.LEAVE_OUT.of queued jobs": ("idx_jobs_pop",),
    "environments.LEAVE_OUT.of scheduled jobs": ("idx_jobs_scheduled",),
    "environments.DELETE_UNUSED": ("idx_jobs_environment (environment_id=?)",),
    "prune.IS_NEEDED.winner": ("idx_jobs_subject_live (subject_key=?)",),
    "prune.IS_NEEDED.group": ("idx_jobs_group_live (chain_group_id=?)",),
    "prune.DELETE_ENVIRONMENT": ("idx_jobs_environment (environment_id=?)",),
    "database.LAST_POSITION": ("idx_jobs_pop",),
    "selected.LIVE_BY.user_tag": ("idx_jobs_tag_live",),
    "selected.LIVE_BY.chain_group_id": ("idx_jobs_group_live",),
    "selected.LIVE_BY.subject_key": ("idx_jobs_subject_live",),
    "selected.LIVE_BY.schedule_id": ("idx_jobs_schedule_live",),
    "selected.LIVE_BY.queue": ("idx_jobs_pop", "idx_jobs_scheduled", "idx_jobs_running"),
    "selected.ENDED_BY.user_tag": ("idx_jobs_user_tag (user_tag=?)",),
    "selected.ENDED_BY.chain_group_id": ("idx_jobs_group (chain_group_id=?)",),
    "selected.ENDED_BY.subject_key": ("idx_jobs_subject_generation (subject_key=?)",),
    "selected.ENDED_BY.schedule_id": ("idx_jobs_gc (finished_at>?)",),
    "selected.ENDED_BY.queue": ("idx_jobs_state_queue (state=? AND queue=?)",),
    **{f"order.IN_SOURCE.{name}": ("idx_jobs_pop",) for name in ("first", "last", "next", "previous")},
    **{f"order.IN_QUEUE.{name}": ("idx_jobs_pop",) for name in ("first", "last", "next", "previous")},
    **{f"order.NEXT_SOURCE.{name}": ("idx_jobs_pop",) for name in ("group", "key", "class")},
    "order.BEHIND": ("idx_jobs_pop",),
}
LIVE_ONLY = "idx_jobs_(pop|scheduled|due|expires|deadline|running)"
OF_JOBS = re.compile(r"\b(FROM|UPDATE|UPDATE OR FAIL|JOIN)\s+jobs\b")


@each_case("name", [name for name in SQL if OF_JOBS.search(SQL[name])])
def test_jobs_are_found_by_an_index_and_history_is_never_walked(old: Store, name: str) -> None:
    plan = plan_of(old.connection, SQL[name], values_for(SQL[name]))
    for index in PINNED.get(name, ()):
        assert index in plan, plan
    assert name in PINNED or BY_ID in plan or BY_NUMBER in plan, plan
    assert not re.search(rf"SCAN jobs(?! USING (COVERING )?INDEX {LIVE_ONLY})", plan), plan


# The whole plan of what is asked at every turn: how far into its index each of them reaches.
WHOLE = {
    "promote.DUE": ["jobs USING INDEX idx_jobs_due (wait_for_idle=? AND require_charging=? AND <expr><?)"],
    "needs.NEEDS": [
        *["jobs USING INDEX idx_jobs_due (wait_for_idle=? AND require_charging=?)"] * 4,
        *["jobs USING INDEX idx_jobs_queued_for_machine (wait_for_idle=? AND require_charging=?)"] * 3,
    ],
    "gates.NEWEST": ["job_conditions"],
    "gates.WAITING": [
        "job_conditions USING INDEX idx_job_conditions_arrival (key=? AND value=? AND rowid<?)",
        "jobs USING COVERING INDEX sqlite_autoindex_jobs_1 (id=?)",
    ],
    "gates.LIVE_OF_SCHEDULE": ["jobs USING INDEX idx_jobs_schedule_live (schedule_id=?)"],
    "gates.WAITING_FOR_TURN": [
        "job_conditions USING INDEX idx_job_conditions_lookup (key=? AND value=?)",
        "jobs USING COVERING INDEX sqlite_autoindex_jobs_1 (id=?)",
    ],
    "gates.NEXT_BLOCKED": ["jobs USING INDEX idx_jobs_blocked (blocked_by=?)"],
    "gates.STOP_WAITING": ["job_conditions USING INDEX sqlite_autoindex_job_conditions_1 (job_id=?)"],
    "lost.QUEUED_NEEDING_MACHINE": [
        "jobs USING INDEX idx_jobs_queued_for_machine (wait_for_idle=? AND require_charging=?)"
    ],
    "fire.NEWEST_DUE": ["schedules USING INDEX idx_schedules_next (next_trigger_at>? AND next_trigger_at<?)"],
    "fire.OLDEST_DUE": ["schedules USING INDEX idx_schedules_next (next_trigger_at>? AND next_trigger_at<?)"],
}


@each_case("name", WHOLE)
def test_what_makes_jobs_wait_is_searched_and_nothing_else(old: Store, name: str) -> None:
    plan = plan_of(old.connection, SQL[name], values_for(SQL[name]))
    assert re.findall(r"^SEARCH (.*)", plan, re.MULTILINE) == WHOLE[name], plan
    assert "TEMP B-TREE" not in plan, plan


RUNS = ("reads.LOGGED_RUN", "reads.ORPHANS", "recover.ORPHANS", "begin.NAME_PROCESS", "run_transition.END_RUN")


@each_case("name", RUNS)
def test_runs_are_found_by_the_number_of_their_job(old: Store, name: str) -> None:
    plan = plan_of(old.connection, SQL[name], values_for(SQL[name]))
    assert re.search(r"SEARCH (job_runs|run) USING PRIMARY KEY \(job_number=\?", plan), plan
    assert "SCAN job_runs" not in plan, plan


@each_case("name", ["claim.POP", "worker_claim.POP", "promote.EXPIRED", "reads.EVENTS"])
def test_what_is_read_in_order_is_not_sorted(old: Store, name: str) -> None:
    plan = plan_of(old.connection, SQL[name], values_for(SQL[name]))
    assert "TEMP B-TREE" not in plan, plan


def test_pop_is_one_search_of_its_index(old: Store) -> None:
    plan = plan_of(old.connection, SQL["claim.POP_PLAIN"], ("default", 0, 1))
    searched = "queue=? AND claim_class=? AND concurrency_key=? AND chain_group_id=?"
    assert plan == f"SEARCH jobs USING INDEX idx_jobs_pop ({searched})"


@each_case("name", ["reads.EVENTS", "reads.EVENTS_OF_JOB", "reads.LOG_IS_CUT", "counts.LOAD"])
def test_streams_are_read_by_their_numbers(old: Store, name: str) -> None:
    plan = plan_of(old.connection, SQL[name], values_for(SQL[name]))
    assert not re.search(r"SCAN (jobs|job_events)\b", plan), plan


LISTINGS: list[tuple[dict[str, Any], str | None, str | None, bool]] = [
    ({}, None, None, False),
    ({"job_type": ["t"]}, None, None, False),
    ({"created_after": 5}, None, None, False),
    ({"schedule_id": "s"}, None, None, False),
    ({"contains": "text"}, None, None, False),
    ({"contains": "text", "user_tag": "tag"}, None, "INDEX idx_jobs_user_tag (", False),
    ({"state": ["DONE"]}, "DONE", "INDEX idx_jobs_state_queue (state=? AND queue=? AND rowid{}?)", False),
    ({"queue": ["default"]}, "QUEUED", "INDEX idx_jobs_pop (queue=?", True),
    ({"queue": ["default"]}, "SCHEDULED", "INDEX idx_jobs_scheduled (queue=? AND rowid{}?)", False),
    ({"queue": ["default"]}, "RUNNING", "INDEX idx_jobs_running (queue=? AND rowid{}?)", False),
    ({"user_tag": "tag"}, None, "INDEX idx_jobs_user_tag (", False),
    ({"user_tag": "tag", "state": ["DONE", "FAILED"]}, None, "INDEX idx_jobs_user_tag (", False),
    ({"chain_group_id": "group"}, None, "INDEX idx_jobs_group (", False),
    ({"subject_key": "s"}, None, "INDEX idx_jobs_subject_generation (", True),
    ({"subject_prefix": "s"}, None, "INDEX idx_jobs_subject_generation (", True),
]


@each_case("newest_first", [True, False])
@each_case(("filters", "state", "index", "in_order_of_its_own"), LISTINGS)
def test_a_listing_uses_the_index_of_its_filter(
    old: Store, filters: dict[str, Any], state: str | None, index: str | None, in_order_of_its_own: bool,
    newest_first: bool,
) -> None:  # fmt: skip
    bound = {name: 1 for name in filters} | {"cursor": 500, "limit": 50}
    plan = plan_of(old.connection, statement(filters, state, newest_first), bound)
    used = (index or "INTEGER PRIMARY KEY (rowid{}?)").format("<" if newest_first else ">")
    assert f"SEARCH jobs USING {used}" in plan, plan
    assert ("TEMP B-TREE" in plan) == in_order_of_its_own, plan


@each_case("filters", [{}, {"state": ["DONE"], "except_queue": ["other"]}, {"user_tag": "tag"}])
def test_the_last_ends_are_read_in_the_order_of_the_index_of_ends(old: Store, filters: dict[str, Any]) -> None:
    bound = {name: 1 for name in filters} | {"ended_at": 500, "cursor": 500, "limit": 50}
    plan = plan_of(old.connection, ended_statement(filters), bound)
    assert "SEARCH jobs USING INDEX idx_jobs_gc (finished_at>? AND finished_at<?)" in plan, plan
    assert "TEMP B-TREE" not in plan, plan
