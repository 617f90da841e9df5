"""The OpenRPC document of rpc.discover, made from the table of methods."""

from functools import cache
from typing import Any

import msgspec

from semantica_daemon import VERSION
from semantica_daemon.wire.methods import METHODS, Method

REF = "#/components/schemas/{name}"


@cache
def openrpc() -> dict[str, Any]:
    types = [kind for row in METHODS for kind in (row.params, row.result)]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    pairs = list(zip(schemas[::2], schemas[1::2], strict=True))
    return {
        "openrpc": "1.2.6",
        "info": {"title": "Semantica", "version": VERSION},
        "methods": [_method(row, *pair, components) for row, pair in zip(METHODS, pairs, strict=True)],
        "components": {"schemas": components},
    }


def _method(row: Method, takes: Any, answers: Any, components: dict[str, Any]) -> dict[str, Any]:
    fields = components[takes["$ref"].rsplit("/", 1)[1]] if "$ref" in takes else takes
    required = fields.get("required", [])
    return {
        "name": row.name,
        "summary": row.summary,
        "paramStructure": "by-name",
        "params": [
            {"name": name, "required": name in required, "schema": schema}
            for name, schema in fields.get("properties", {}).items()
        ],
        "result": {"name": "result", "schema": answers},
    }
