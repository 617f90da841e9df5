"""rpc.discover is the table; what a later version brings is refused until then, never silently ignored."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from semantica_daemon.model.job import LATER as LATER_FIELDS
from semantica_daemon.wire.job import JobSpec
from semantica_daemon.wire.methods import LATER, METHODS
from tests.cases import each_case
from tests.harness import Harness, Process, RpcError
from tests.rpc.wire import nobody_notices

LATER_METHODS = [f"{family}.{verb}" for family, verbs in LATER.items() for verb in verbs.split()]
FIELDS: dict[str, Any] = {"workspace": True, "inputs": ["/x"]}
IN_PROTOCOL = {
    "job": "enqueue enqueue_many plan get list wait cancel retry update move hold release explain"
    " logs archive execute export",
    "run": "progress log result",
    "event": "subscribe unsubscribe list emit",
    "queue": "list configure pause resume",
    "template": "put get list delete",
    "schedule": "put get list delete enable disable trigger",
    "group": "create get list cancel wait",
    "reservation": "acquire release get",
    "worker": "register claim heartbeat complete fail leave list",
    "artifact": "list verify",
    "receipt": "get verify",
    "machine": "get activity",
    "admin": "health stats metrics maintenance backup config shutdown",
    "rpc": "discover",
}


async def refused(harness: Harness, method: str, /, **params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await harness.call(method, **params)
    return caught.value


def test_every_method_the_protocol_names_is_there_or_comes_later() -> None:
    here = {method.name for method in METHODS}
    named = {f"{family}.{verb}" for family, verbs in IN_PROTOCOL.items() for verb in verbs.split()}
    assert named <= here | set(LATER_METHODS)
    assert not here & set(LATER_METHODS)


async def test_a_method_of_a_later_version_is_refused_as_such(real: Harness, home: Path) -> None:
    async with nobody_notices(real, home):
        for method in LATER_METHODS:
            error = await refused(real, method, job_id="abcd")
            assert (error.code, error.data["code"]) == (4000, "E_NOT_SUPPORTED"), method
            assert (error.data["retryable"], bool(error.data["hint"])) == (False, True)


def test_every_field_of_a_later_version_has_an_example_here() -> None:
    assert set(FIELDS) == set(LATER_FIELDS)
    assert set(FIELDS) <= set(JobSpec.__struct_fields__)


@each_case("method", ["job.enqueue", "job.plan", "job.enqueue_many"])
async def test_a_field_of_a_later_version_is_refused_never_ignored(real: Harness, home: Path, method: str) -> None:
    specs = [(f".{name}", {name: value}) for name, value in FIELDS.items()]
    async with nobody_notices(real, home):
        for path, fields in specs:
            spec = {"job_type": "semantica.noop", **fields}
            many = method == "job.enqueue_many"
            error = await refused(real, method, **({"jobs": [{"job_type": "semantica.noop"}, spec]} if many else spec))
            assert (error.code, error.data["code"]) == (4000, "E_NOT_SUPPORTED"), path
            assert error.data["path"] == ("$.jobs[1]" if many else "$") + path
            assert f"`{error.data['path']}`" in error.message


async def test_a_type_nobody_handles_is_a_command_when_there_is_one(real: Harness) -> None:
    ack = await real.enqueue("BUILD", payload={"argv": ["true"]})
    job = await real.ended(ack["job_id"])
    assert (job["execution_mode"], job["state"], job["exit_code"]) == ("SUBPROCESS", "DONE", 0)


async def test_a_type_nobody_handles_is_otherwise_a_mistyped_name(real: Harness, home: Path) -> None:
    async with nobody_notices(real, home):
        error = await refused(real, "job.enqueue", job_type="semantica.slep", payload={"ms": 1})
        assert (error.code, error.data["code"]) == (4000, "E_NO_HANDLER")
        assert "semantica.sleep" in error.data["hint"]


async def test_discover_is_openrpc_of_the_whole_table(real: Harness) -> None:
    document = await real.call("rpc.discover")
    assert document["openrpc"].startswith("1.")
    assert set(document["info"]) >= {"title", "version"}
    assert len(document["methods"]) == len(METHODS)
    for described, method in zip(document["methods"], METHODS, strict=True):
        assert (described["name"], described["paramStructure"]) == (method.name, "by-name")
        assert described["summary"]
        assert described["result"]["name"]
        assert isinstance(described["result"]["schema"], dict)
        fields = {field.encode_name: field for field in msgspec.structs.fields(method.params)}
        assert [param["name"] for param in described["params"]] == list(fields)
        for param in described["params"]:
            assert param["required"] == fields[param["name"]].required
            assert isinstance(param["schema"], dict)


async def test_every_reference_in_discover_leads_somewhere(real: Harness) -> None:
    document = await real.call("rpc.discover")
    schemas = document["components"]["schemas"]
    found = references(document)
    assert found
    assert {reference.removeprefix("#/components/schemas/") for reference in found} <= set(schemas)


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*(references(value) for value in node.values()))
    if isinstance(node, list):
        return set().union(*(references(value) for value in node))
    return set()


def test_admin_shutdown_ends_the_process_as_sigterm_does(home: Path) -> None:
    with Process(home).start() as daemon:
        assert daemon.call("admin.shutdown", reason="enough") == {"stopping": True}
        assert daemon.process is not None
        assert daemon.process.wait(40) == 0
        assert not daemon.socket.exists()
        daemon.start()
        events = daemon.call("event.list", event_types=["daemon.stopping"])["events"]
        assert [event["message"] for event in events] == ["enough"]
