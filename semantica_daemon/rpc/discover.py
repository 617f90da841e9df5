"""The OpenRPC document of rpc.discover, made from the tables of methods and notifications."""

from functools import cache
from typing import Any

import msgspec

from semantica_daemon import VERSION
from semantica_daemon.wire.methods import METHODS, NOTIFICATIONS, Method, Notification

REF = "#/components/schemas/{name}"
Schema = dict[str, Any]


@cache
def openrpc() -> dict[str, Any]:
    """OpenRPC has no place for what a server sends by itself: notifications are the extension `x-notifications`."""
    rows: list[Method | Notification] = [*METHODS, *NOTIFICATIONS]
    types = [row.params for row in rows] + [row.result for row in METHODS]
    schemas, components = _with_ecma_patterns(msgspec.json.schema_components(types, ref_template=REF))
    calls: list[dict[str, Any]] = [
        {"name": row.name, "summary": row.summary, "paramStructure": "by-name", "params": _fields(taken, components)}
        for row, taken in zip(rows, schemas[: len(rows)], strict=True)
    ]
    for call, row, result in zip(calls[: len(METHODS)], METHODS, schemas[len(rows) :], strict=True):
        call["result"] = {"name": "result", "description": row.summary, "schema": result}
    return {
        "openrpc": "1.3.2",
        "info": {"title": "Semantica", "version": VERSION},
        "methods": calls[: len(METHODS)],
        "components": {"schemas": components},
        "x-notifications": calls[len(METHODS) :],
    }


def _fields(taken: Schema, components: dict[str, Schema]) -> list[dict[str, Any]]:
    fields = components[taken["$ref"].rsplit("/", 1)[1]]
    required = fields.get("required", [])
    return [
        {"name": name, "description": schema["description"], "required": name in required, "schema": schema}
        for name, schema in fields.get("properties", {}).items()
    ]


def _with_ecma_patterns(schema: Any) -> Any:
    r"""JSON Schema has the regular expressions of ECMAScript, where ^ and $ mean \A and \Z of Python."""
    if isinstance(schema, list | tuple):
        return [_with_ecma_patterns(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _with_ecma_patterns(part) for name, part in schema.items()}
    if isinstance(pattern := found.get("pattern"), str):
        found["pattern"] = pattern.replace(r"\A", "^").replace(r"\Z", "$")
    return found
