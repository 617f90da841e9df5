"""What is known of the machine and who waits for it: a truth table, and the instants at which somebody does."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.model.machine import Facts, Needs
from semantica_daemon.wire.machine import Kind
from tests.cases import each_case

EITHER = list(product((False, True), repeat=2))


@each_case(("idle", "charging"), EITHER)
@each_case(("wants_idle", "wants_charging"), EITHER)
def test_a_need_is_met_when_all_that_it_wants_is_so(
    idle: bool, charging: bool, wants_idle: bool, wants_charging: bool
) -> None:
    meets = Facts(idle, charging).meet(wants_idle, wants_charging)
    assert meets == (wants_idle <= idle and wants_charging <= charging)
    assert ((wants_idle, wants_charging) in Facts(idle, charging).met) == meets


def test_what_nobody_knows_meets_no_need() -> None:
    assert Facts().met == [(0, 0)]
    assert sorted(Facts(True, True).met) == [(0, 0), (0, 1), (1, 0), (1, 1)]


instants = st.none() | st.integers(0, 20)
needs = st.builds(Needs, instants, instants)


@given(needs, st.integers(0, 20))
def test_somebody_waits_now_or_from_an_instant_on(given: Needs, now: int) -> None:
    at: dict[Kind, int | None] = {"idle": given.idle_at, "power": given.power_at}
    assert given.now(now) == {kind for kind, since in at.items() if since is not None and since <= now}
    to_come = [since for since in at.values() if since is not None and since > now]
    assert given.next(now) == (min(to_come) if to_come else None)


@given(needs, st.sets(st.sampled_from(["idle", "power"])), st.integers(0, 20))
def test_only_what_is_asked_for_is_left(given: Needs, kinds: set[Kind], now: int) -> None:
    assert given.only(kinds).now(now) == given.now(now) & kinds
