"""The query of job.graph: ancestors and descendants, a group, the live chains; each bounded, the nearest jobs first."""

from collections.abc import AsyncIterator
from typing import Any

import aiosqlite
import pytest

from semantica_daemon.errors import InvalidParams, JobNotFound
from semantica_daemon.store.graph import graph
from semantica_daemon.wire.graph import Graph, GraphParams
from tests.builders import Store
from tests.store.steps import COMMAND, LATER, begin, end, put, stop
from tests.store.test_chains import put_many


@pytest.fixture
async def db(forged: Store) -> AsyncIterator[aiosqlite.Connection]:
    async with aiosqlite.connect(f"file:{forged.path}?mode=ro", uri=True, isolation_level=None) as connection:
        yield connection


async def drawn(db: aiosqlite.Connection, **params: Any) -> Graph:
    found = await graph(db, GraphParams(**params))
    assert not db.in_transaction
    return found


def ids(found: Graph) -> list[str]:
    return [node.job_id for node in found.nodes]


def links(found: Graph) -> set[tuple[str, str]]:
    return {(edge.parent_id, edge.job_id) for edge in found.edges}


def diamond(store: Store, **spec: Any) -> list[str]:
    """a, then b and c, then d."""
    parents: tuple[list[str], ...] = ([], ["#0"], ["#0"], ["#1", "#2"])
    return put_many(store, *[{"schedule": LATER, "parents": names, **spec} for names in parents])


async def test_a_job_is_shown_with_its_ancestors_and_descendants(store: Store, db: aiosqlite.Connection) -> None:
    a, b, c, d = diamond(store)
    put(store)
    assert ids(await drawn(db, job_id=b[:8])) == [a, b, d]
    whole = await drawn(db, job_id=a)
    assert (ids(whole), links(whole)) == ([a, b, c, d], {(a, b), (a, c), (b, d), (c, d)})
    assert [node.hidden_parents for node in (await drawn(db, job_id=b)).nodes] == [0, 0, 1]


async def test_a_node_has_what_a_drawing_needs(store: Store, db: aiosqlite.Connection) -> None:
    job_id = put(store, **COMMAND, queue="q", user_tag="t", chain_group_id="g").job_id
    (node,) = (await drawn(db, job_id=job_id)).nodes
    assert (node.argv, node.state, node.queue, node.user_tag, node.chain_group_id) == (
        ["true"],
        "QUEUED",
        "q",
        "t",
        "g",
    )
    odd = put(store, job_type="semantica.echo", payload={"argv": {"not": "a list"}}).job_id
    assert (await drawn(db, job_id=odd)).nodes[0].argv is None


async def test_of_many_descendants_the_nearest_are_shown(store: Store, db: aiosqlite.Connection) -> None:
    chain = put_many(store, {"schedule": LATER}, *[{"parents": [f"#{number}"]} for number in range(20)])
    found = await drawn(db, job_id=chain[10], limit=7)
    assert (ids(found), found.truncated) == (chain[7:14], True)
    assert ids(await drawn(db, job_id=chain[0], limit=3)) == chain[:3]
    assert ids(await drawn(db, job_id=chain[20], limit=3)) == chain[18:]
    assert ids(await drawn(db, job_id=chain[5], limit=1)) == [chain[5]]
    whole = await drawn(db, job_id=chain[10], limit=21)
    assert (ids(whole), whole.truncated) == (chain, False)


async def test_a_group_is_shown_with_the_newest_of_its_jobs(store: Store, db: aiosqlite.Connection) -> None:
    members = diamond(store, chain_group_id="g")
    put(store, parents=[members[0]])
    assert ids(await drawn(db, chain_group_id="g")) == members
    cut = await drawn(db, chain_group_id="g", limit=2)
    assert (ids(cut), cut.truncated, [node.hidden_parents for node in cut.nodes]) == (members[2:], True, [1, 1])
    assert (await drawn(db, chain_group_id="none")).nodes == []


async def test_without_a_name_the_live_chains_are_shown(store: Store, db: aiosqlite.Connection) -> None:
    put(store, queue="alone", schedule=LATER)
    ended = diamond(store)
    stop(store, ended[0])
    first = begin(store)
    running, waiting = put(store, parents=[first.run.job_id]).job_id, put(store, parents=[first.run.job_id]).job_id
    last = put(store, parents=[running]).job_id
    family = [first.run.job_id, running, waiting, last]
    assert ids(await drawn(db)) == family, "they wait for their parent"
    end(store, first)
    assert ids(await drawn(db)) == family, "they wait for a slot"
    store.claim()
    assert ids(await drawn(db)) == family, "they run"
    stop(store, last)
    assert ids(await drawn(db)) == family[:3]
    cut = await drawn(db, limit=2)
    assert (ids(cut), cut.truncated) == (family[:2], True)


async def test_what_cannot_be_shown(store: Store, db: aiosqlite.Connection) -> None:
    with pytest.raises(JobNotFound):
        await drawn(db, job_id="deadbeef")
    with pytest.raises(InvalidParams):
        await drawn(db, job_id="deadbeef", chain_group_id="g")
    assert not db.in_transaction
