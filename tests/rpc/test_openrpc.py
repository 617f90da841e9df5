"""The document of rpc.discover, read by the validator of the OpenRPC project, and its descriptions."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.wire.methods import NOTIFICATIONS
from tests.harness import Harness
from tests.npm import node_modules

PACKAGE = "@open-rpc/schema-utils-js@2.2.1"
VALIDATE = Path(__file__).with_name("validate_openrpc.cjs")


async def test_the_validator_of_openrpc_accepts_the_document(shared: Harness, pytestconfig: pytest.Config) -> None:
    modules = node_modules(pytestconfig, PACKAGE)
    document = json.dumps(await shared.call("rpc.discover"))
    found = await asyncio.to_thread(validate, document, modules)
    assert found.pop("good") == 0
    assert all(found.values()), found


def validate(document: str, modules: Path) -> dict[str, int]:
    """How many errors the validator finds in each of its calls."""
    command = ["node", str(VALIDATE), str(modules)]
    done = subprocess.run(command, input=document, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


async def test_every_field_is_described(shared: Harness) -> None:
    document = await shared.call("rpc.discover")
    calls = [*document["methods"], *document["x-notifications"]]
    found = [f"{call['name']}.{field['name']}" for call in calls for field in call["params"] if not described(field)]
    shapes = document["components"]["schemas"].items()
    found += [f"{name}.{field}" for name, shape in shapes for field in undescribed(shape)]
    found += [call["name"] for call in document["methods"] if not described(call["result"])]
    assert not found


def undescribed(shape: dict[str, Any]) -> Iterator[str]:
    return (name for name, schema in shape.get("properties", {}).items() if not described(schema))


def described(schema: dict[str, Any]) -> bool:
    return bool(schema.get("description", "").strip())


async def test_what_the_daemon_sends_by_itself_is_described_too(shared: Harness) -> None:
    document = await shared.call("rpc.discover")
    sent = {one["name"]: one for one in document["x-notifications"]}
    assert list(sent) == [row.name for row in NOTIFICATIONS]
    assert [field["name"] for field in sent["event"]["params"]] == ["subscription_id", "events"]
    assert sent["stream.gap"]["summary"]
