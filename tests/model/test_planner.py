"""Newest wins: the planner by a table of what a lane may look like, and by properties over any lane."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.errors import GenerationOwner
from semantica_daemon.model import state
from semantica_daemon.model.planner import Lane, Live, Plan, kept, plan
from semantica_daemon.wire.job import JobSpec
from tests.cases import each_case


def arrival(generation: int | None = None, on_running: str = "finish", **changed: object) -> JobSpec:
    given = {"job_type": "INDEX", "generation": generation, "subject_key": "s"}
    return msgspec.convert({**given, "on_running": on_running, **changed}, JobSpec)


def plan_of(spec: JobSpec, known: Lane | None, jobs: list[Live]) -> Plan:
    return plan(spec, spec.on_running or "finish", known, jobs)


def lane(generation: int, numbered_by: str = "client") -> Lane:
    given = {"generation": generation, "job_id": "newest", "numbered_by": numbered_by, "ended": None}
    return msgspec.convert(given, Lane)


def live(
    job_id: str, generation: int, current: str = state.QUEUED, job_type: str = "INDEX", stopping: bool = False
) -> Live:
    return Live(0, job_id, job_type, current, generation, stopping)


WAITING = live("w", 5)
DUE = live("s", 5, state.SCHEDULED)
RUNS = live("r", 5, state.RUNNING)
TWICE = msgspec.structs.replace(RUNS, interrupts=2)
OFTEN = msgspec.structs.replace(RUNS, interrupts=3)
STOPS = live("r", 5, state.RUNNING, stopping=True)
OTHER = live("o", 90, state.QUEUED, "TEST")
OTHER_RUNS = live("p", 90, state.RUNNING, "TEST")

TABLE: dict[str, tuple[JobSpec, Lane | None, list[Live], Plan]] = {
    "an unknown lane numbers from one": (arrival(), None, [], Plan(1, "server")),
    "an unknown lane takes the number given": (arrival(7), None, [], Plan(7, "client")),
    "zero is a number": (arrival(0), None, [], Plan(0, "client")),
    "the server takes the next": (arrival(), lane(5, "server"), [], Plan(6, "server")),
    "what is queued is superseded": (arrival(6), lane(5), [WAITING], Plan(6, "client", supersede=("w",))),
    "what is scheduled is superseded": (arrival(6), lane(5), [DUE], Plan(6, "client", supersede=("s",))),
    "what runs may finish": (arrival(6), lane(5), [RUNS], Plan(6, "client", outdate=("r",))),
    "what runs is interrupted": (arrival(6, "cancel"), lane(5), [RUNS], Plan(6, "client", interrupt=("r",))),
    "what is stopping is left alone": (arrival(6, "cancel"), lane(5), [STOPS], Plan(6, "client")),
    "keep supersedes nothing that waits": (
        arrival(supersede="keep"), lane(5, "server"), [WAITING, DUE], Plan(6, "server")
    ),
    "keep outdates what runs": (
        arrival(supersede="keep"), lane(5, "server"), [RUNS], Plan(6, "server", outdate=("r",))
    ),
    "keep interrupts what runs, if it is told to": (
        arrival(None, "cancel", supersede="keep"), lane(5, "server"), [RUNS], Plan(6, "server", interrupt=("r",))
    ),
    "append leaves all of them alone": (
        arrival(None, "cancel", supersede="append"), lane(5, "server"), [WAITING, RUNS], Plan(6, "server")
    ),
    "lower is stale": (arrival(4), lane(5), [WAITING], Plan(4, "client", stale=True)),
    "the third in a row is interrupted": (
        arrival(6, "cancel"), lane(5), [TWICE], Plan(6, "client", interrupt=("r",))
    ),
    "the fourth in a row may finish": (
        arrival(6, "cancel"), lane(5), [OFTEN], Plan(6, "client", outdate=("r",))
    ),
    "no interruption at all": (
        arrival(6, "cancel", max_interrupts=0), lane(5), [RUNS], Plan(6, "client", outdate=("r",))
    ),
    "other types are not touched": (arrival(6), lane(5), [WAITING, OTHER], Plan(6, "client", supersede=("w",))),
    "the whole subject goes by arrival": (
        arrival(6, supersede="subject"), lane(5), [WAITING, OTHER, OTHER_RUNS],
        Plan(6, "client", supersede=("w", "o"), outdate=("p",)),
    ),
    "the whole subject is interrupted": (
        arrival(6, "cancel", supersede="subject"), None, [OTHER, OTHER_RUNS],
        Plan(6, "client", supersede=("o",), interrupt=("p",)),
    ),
    "a stale arrival supersedes nothing": (
        arrival(4, supersede="subject"), lane(5), [OTHER, OTHER_RUNS], Plan(4, "client", stale=True)
    ),
    "the client takes an idle lane over": (arrival(6), lane(5, "server"), [], Plan(6, "client")),
    "the server takes an idle lane over": (arrival(), lane(5, "client"), [], Plan(6, "server")),
    "another type's live job leaves the lane idle": (
        arrival(6, supersede="subject"), lane(5, "server"), [OTHER], Plan(6, "client", supersede=("o",))
    ),
}  # fmt: skip

REFUSED: dict[str, tuple[JobSpec, Lane, list[Live]]] = {
    "a number in a lane the server numbers": (arrival(6), lane(5, "server"), [WAITING]),
    "a number in a lane that runs": (arrival(6), lane(5, "server"), [RUNS]),
    "no number in a lane its client numbers": (arrival(), lane(5), [WAITING]),
    "a number that does not exceed the newest": (arrival(5), lane(5, "server"), []),
    "a number below the newest": (arrival(4), lane(5, "server"), []),
}


@each_case("case", TABLE)
def test_the_plan(case: str) -> None:
    given, known, jobs, expected = TABLE[case]
    assert plan_of(given, known, jobs) == expected


def waiting(number: int, **changed: object) -> Live:
    return msgspec.structs.replace(live(f"w{number}", 5), number=number, **changed)


KEPT: dict[str, tuple[JobSpec, list[Live], str | None]] = {
    "nothing waits": (arrival(supersede="keep"), [RUNS], None),
    "the oldest that waits": (arrival(supersede="keep"), [waiting(3), waiting(2), RUNS], "w2"),
    "one that waits for its next attempt": (arrival(supersede="keep"), [waiting(2, has_run=True)], "w2"),
    "none that is stale": (arrival(supersede="keep"), [waiting(2, stale=True), waiting(3)], "w3"),
    "with gather none that has run": (
        arrival(supersede="keep", gather=True), [waiting(2, gathers=True, has_run=True)], None
    ),
    "with gather none that does not": (
        arrival(supersede="keep", gather=True), [waiting(2), waiting(3, gathers=True)], "w3"
    ),
}  # fmt: skip


@each_case("case", KEPT)
def test_the_job_that_is_kept(case: str) -> None:
    given, jobs, expected = KEPT[case]
    found = kept(given, jobs)
    assert (found and found.job_id) == expected


@each_case("case", REFUSED)
def test_a_lane_is_numbered_by_one_party(case: str) -> None:
    with pytest.raises(GenerationOwner) as refused:
        plan_of(*REFUSED[case])
    assert (refused.value.number, refused.value.code) == (4002, "E_GENERATION_OWNER")
    assert refused.value.hint
    assert refused.value.details == {"newest_generation": 5}


@st.composite
def lanes(draw: st.DrawFn) -> tuple[Lane, list[Live]]:
    """As they can be: at most one waiting job, the newest; the others run and are lower."""
    newest = draw(st.integers(0, 2**62))
    owner = draw(st.sampled_from(["server", "client"]))
    jobs = []
    if draw(st.booleans()):
        jobs.append(live("newest", newest, draw(st.sampled_from(state.LIVE))))
    if newest and draw(st.booleans()):
        jobs.append(live("older", draw(st.integers(0, newest - 1)), state.RUNNING, stopping=draw(st.booleans())))
    for number in range(draw(st.integers(0, 3))):
        current = draw(st.sampled_from(state.LIVE))
        jobs.append(live(f"other{number}", draw(st.integers(0, 2**62)), current, "TEST"))
    jobs = [msgspec.structs.replace(job, interrupts=draw(st.integers(0, 5))) for job in jobs]
    return lane(newest, owner), jobs


arrivals = st.builds(
    JobSpec,
    job_type=st.just("INDEX"),
    generation=st.none() | st.integers(0, 2**62),
    supersede=st.sampled_from(["lane", "subject"]),
    on_running=st.sampled_from(["finish", "cancel"]),
    max_interrupts=st.integers(0, 5),
)


@given(arrivals, lanes())
def test_after_any_plan_one_job_of_the_lane_waits_and_it_is_the_newest(
    given: JobSpec, found: tuple[Lane, list[Live]]
) -> None:
    known, jobs = found
    try:
        planned = plan_of(given, known, jobs)
    except GenerationOwner:
        assert (given.generation is None) != (known.numbered_by == "server")
        return
    assert planned.stale == (planned.generation < known.generation)
    in_lane = [job for job in jobs if job.job_type == given.job_type]
    waiting = [job.generation for job in in_lane if job.state != state.RUNNING and job.job_id not in planned.supersede]
    if not planned.stale and planned.generation != known.generation:
        waiting.append(planned.generation)
    assert len(waiting) <= 1
    assert all(generation == max(known.generation, planned.generation) for generation in waiting)


@given(arrivals, lanes())
def test_a_plan_ends_what_waits_and_stops_or_marks_what_runs(given: JobSpec, found: tuple[Lane, list[Live]]) -> None:
    known, jobs = found
    try:
        planned = plan_of(given, known, jobs)
    except GenerationOwner:
        return
    by_id = {job.job_id: job for job in jobs}
    touched = [by_id[job_id] for job_id in (*planned.supersede, *planned.interrupt, *planned.outdate)]
    assert all(by_id[job_id].state != state.RUNNING for job_id in planned.supersede)
    assert all(by_id[job_id].state == state.RUNNING for job_id in (*planned.interrupt, *planned.outdate))
    assert not any(job.stopping for job in touched)
    for job_id in planned.interrupt:
        assert given.on_running == "cancel" and by_id[job_id].interrupts < given.max_interrupts  # noqa: PT018
    for job in touched:
        same = job.job_type == given.job_type
        assert job.generation < planned.generation if same else given.supersede == "subject"


@given(lanes(), st.sampled_from(["finish", "cancel"]), st.sampled_from(["lane", "subject"]))
def test_the_server_always_numbers_upwards(found: tuple[Lane, list[Live]], on_running: str, supersede: str) -> None:
    known, jobs = found
    owned = msgspec.structs.replace(known, numbered_by="server")
    planned = plan_of(arrival(None, on_running, supersede=supersede), owned, jobs)
    assert planned.generation == known.generation + 1
    assert not planned.stale
