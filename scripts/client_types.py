"""The stub semantica_daemon/client/results.pyi, made from the Structs of the wire by `scripts/protocol-docs`."""

import keyword
from pathlib import Path
from typing import Any

import msgspec

from semantica_daemon.wire.event import Event
from semantica_daemon.wire.job import Ack, CancelResult
from semantica_daemon.wire.job_view import JobWithRuns

STUB = Path(__file__).parent.parent / "semantica_daemon" / "client" / "results.pyi"
ROOTS = (Ack, JobWithRuns, CancelResult, Event)
NAMES = {"JobWithRuns": "Job", "RunView": "Run"}
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
Schema = dict[str, Any]


def stub() -> str:
    _, shapes = msgspec.json.schema_components(ROOTS, ref_template="{name}")
    parts = [_typed_dict(NAMES.get(name, name), shape["properties"]) for name, shape in sorted(shapes.items())]
    return "\n".join(["from typing import Any, Literal, TypedDict", "", *parts])


def _typed_dict(name: str, fields: dict[str, Schema]) -> str:
    """A class, unless a field has the name of a keyword."""
    types = {field: _type(schema) for field, schema in fields.items()}
    if any(map(keyword.iskeyword, types)):
        inside = "".join(f'        "{field}": {kind},\n' for field, kind in types.items())
        return f'{name} = TypedDict(\n    "{name}",\n    {{\n{inside}    }},\n)\n'
    return f"class {name}(TypedDict):\n" + "".join(f"    {field}: {kind}\n" for field, kind in types.items())


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(NAMES.get(schema["$ref"], schema["$ref"]))
    if "enum" in schema:
        return f"Literal[{', '.join(_quoted(value) for value in schema['enum'])}]"
    if "anyOf" in schema:
        return " | ".join(_type(one) for one in schema["anyOf"])
    kind = schema.get("type")
    if kind == "array":
        return f"list[{_type(schema.get('items') or {})}]"
    if kind == "object":
        return f"dict[str, {_type(schema.get('additionalProperties') or {})}]"
    return SIMPLE.get(str(kind), "Any")


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
