"""The wire's table and the bindings agree in both directions, and every field of the wire is described."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.rpc.binding import Binding, Write, bind
from semantica_daemon.store.writes.lifecycle import nothing
from semantica_daemon.wire.methods import METHODS, NOTIFICATIONS
from tests.harness import Harness

ALL: dict[str, Binding] = {row.name: Write(nothing) for row in METHODS}


async def test_each_method_of_the_table_is_bound(manual: Harness) -> None:
    """The daemon of the fixture has bound its families; the table refuses anything else."""
    assert len({row.name for row in METHODS}) == len(METHODS)
    assert manual.daemon.lifecycle.status == "ready"


@pytest.mark.parametrize("name", [row.name for row in METHODS])
def test_a_method_without_a_binding_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"differ in") as refused:
        bind({other: binding for other, binding in ALL.items() if other != name})
    assert name in str(refused.value)


def test_a_binding_without_a_method_is_refused() -> None:
    with pytest.raises(ValueError, match=r"differ in job\.juggle"):
        bind({**ALL, "job.juggle": Write(nothing)})


def test_every_field_of_the_wire_is_described() -> None:
    types = [kind for row in METHODS for kind in (row.params, row.result)] + [row.params for row in NOTIFICATIONS]
    _, components = msgspec.json.schema_components(types)
    assert {missing for name, schema in components.items() for missing in undescribed(name, schema)} == set()


def undescribed(name: str, schema: dict[str, Any]) -> list[str]:
    return [f"{name}.{field}" for field, about in schema.get("properties", {}).items() if not about.get("description")]
