"""Ids: proper UUIDs, never twice, and near each other when made together."""

import itertools
from random import Random
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.store.ids import Ids


@given(st.integers(0, 2**32), st.integers(0, 2**48 - 1))
def test_jobs_have_v4_and_runs_v7_uuids(seed: int, now: int) -> None:
    ids = Ids(Random(seed))
    job, run = UUID(ids.job()), UUID(ids.run(now))
    assert (job.version, run.version) == (4, 7)
    assert job.variant == run.variant == "specified in RFC 4122"
    assert run.int >> 80 == now


def test_ids_do_not_repeat_and_jobs_made_together_lie_together() -> None:
    ids = Ids(Random(5))
    jobs = [ids.job() for _ in range(70_000)]
    assert len(set(jobs)) == len(jobs)
    heads = [int(job[:4], 16) for job in jobs]
    assert all((after - before) % 0x10000 == 1 for before, after in itertools.pairwise(heads))


def test_runs_do_not_repeat_within_a_millisecond_or_when_the_time_comes_again() -> None:
    ids = Ids(Random(5))
    runs = [ids.run(now) for now in (7, 8, 7) for _ in range(5000)]
    assert len(set(runs)) == len(runs)
    assert all(UUID(run).version == 7 and str(UUID(run)) == run for run in runs)


def test_ids_are_written_as_they_are_read() -> None:
    ids = Ids(Random(5))
    assert all(str(UUID(made)) == made for made in (ids.job(), ids.run(1_800_000_000_000)))


def test_one_seed_gives_one_order_of_ids() -> None:
    one, two = Ids(Random(9)), Ids(Random(9))
    assert [one.job() for _ in range(5)] == [two.job() for _ in range(5)]
