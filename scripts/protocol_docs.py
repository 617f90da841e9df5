"""Makes docs/protocol.md from the wire's table of methods and `protocol_template.md`, and the types of the Python
client (`client_types`)."""

import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import client_types
import msgspec

from semantica_daemon.rpc.methods.protocol import LIMITS
from semantica_daemon.rpc.subscriptions import MAX_SUBSCRIPTIONS
from semantica_daemon.wire.methods import LATER, METHODS, NOTIFICATIONS

HERE = Path(__file__).parent
TEMPLATE = HERE / "protocol_template.md"
PAGE = HERE.parent / "docs" / "protocol.md"
Schema = dict[str, Any]


def page() -> str:
    parts = {name: f"{value:,}" for name, value in LIMITS.items()} | {"subscriptions": str(MAX_SUBSCRIPTIONS)}
    later = ", ".join(f"`{family}.{verb}`" for family, verbs in LATER.items() for verb in verbs.split())
    parts["later"] = textwrap.fill(later, 118)
    parts |= Sections().rendered()
    return re.sub(r"{{(\w+)}}", lambda found: parts[found[1]], TEMPLATE.read_text())


class Sections:
    """A shape that only one method uses is shown with it, all others once under Shapes."""

    def __init__(self) -> None:
        types = [kind for row in METHODS for kind in (row.params, row.result)] + [row.params for row in NOTIFICATIONS]
        self._schemas, self._shapes = msgspec.json.schema_components(types, ref_template="{name}")
        direct = Counter(name for schema in self._schemas for name in _refs(schema))
        nested = {name for shape in self._shapes.values() for name in _refs(shape.get("properties", {}))}
        taken = set(_refs(self._schemas[: 2 * len(METHODS) : 2]))
        self._taken = taken | {inner for name in taken for inner in _refs(self._shapes[name].get("properties", {}))}
        self._inline = {name for name, count in direct.items() if count == 1} - nested

    def rendered(self) -> dict[str, str]:
        pairs = zip(self._schemas[: 2 * len(METHODS) : 2], self._schemas[1 : 2 * len(METHODS) : 2], strict=True)
        methods = [
            _section(row.name, _sentence(row.summary), self._use("Params", params), self._use("Result", result))
            for row, (params, result) in zip(METHODS, pairs, strict=True)
        ]
        notifications = [
            _section(row.name, _sentence(row.summary), self._use("Params", params))
            for row, params in zip(NOTIFICATIONS, self._schemas[2 * len(METHODS) :], strict=True)
        ]
        shown = sorted(name for name in self._shapes.keys() - self._inline if self._shapes[name].get("properties"))
        shapes = [_section(name, self._described(name)) for name in shown]
        sections = {"methods": methods, "notifications": notifications, "shapes": shapes}
        return {name: "\n\n".join(texts) for name, texts in sections.items()}

    def _use(self, title: str, schema: Schema) -> str:
        name = schema.get("$ref")
        if name is None:
            return f"{title}: {'null' if schema.get('type') == 'null' else 'an object'}."
        if not self._shapes[name].get("properties"):
            return f"{title}: {'none' if self._shapes[name].get('additionalProperties') is False else 'any; ignored'}."
        return f"{title}:\n\n{self._described(name)}" if name in self._inline else f"{title}: {_link(name)}."

    def _described(self, name: str) -> str:
        shape = self._shapes[name]
        required = set(shape.get("required", ()))
        fields = shape["properties"].items()
        if name in self._taken:
            rows = [_row(field, schema, _default(schema, field in required)) for field, schema in fields]
            rows = ["| field | type | default | meaning |", "|---|---|---|---|", *rows]
        else:
            rows = ["| field | type | meaning |", "|---|---|---|", *(_row(field, schema) for field, schema in fields)]
        text = "\n".join(rows)
        about = " ".join(shape.get("description", "").split())
        return f"{about}\n\n{text}" if about else text


def _section(title: str, *parts: str) -> str:
    return "\n\n".join([f"### {title}", *parts])


def _default(schema: Schema, required: bool) -> str:
    return "required" if required else f"`{json.dumps(schema.get('default'))}`"


def _row(field: str, schema: Schema, *more: str) -> str:
    cells = f"`{field}`", _type(schema), *more, schema.get("description", "")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return _link(schema["$ref"])
    if "enum" in schema:
        return " | ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    kind = schema.get("type")
    if kind == "array":
        return _array(schema)
    if kind in ("integer", "number"):
        return _bounded(str(kind), schema.get("minimum"), schema.get("maximum"))
    if kind == "string":
        return _bounded("string", schema.get("minLength"), schema.get("maxLength"), " characters")
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, dict) and inner else "object"
    return str(kind) if kind else "any JSON"


def _array(schema: Schema) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(_type(one) for one in schema['prefixItems'])}]"
    return _bounded(f"list of {_type(schema.get('items') or {})}", schema.get("minItems"), schema.get("maxItems"))


def _bounded(text: str, least: Any, most: Any, unit: str = "") -> str:
    if most is not None and most >= 10**15:
        most = None  # so far away that it only keeps numbers apart from nonsense
    if least is None and most is None:
        return text
    if most is None:
        return text if least == 0 else f"{text} (at least {least}{unit})"
    return f"{text} ({least or 0:,} to {most:,}{unit})"


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _refs(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        yield from _refs_of(value for key, value in schema.items() if key != "$ref")
    elif isinstance(schema, list | tuple):
        yield from _refs_of(schema)


def _refs_of(schemas: Iterable[Any]) -> Iterator[str]:
    for schema in schemas:
        yield from _refs(schema)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def main() -> None:
    made = {PAGE: page(), client_types.STUB: client_types.stub()}
    for path, text in made.items():
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(HERE.parent)} is out of date: run scripts/protocol-docs")


if __name__ == "__main__":
    main()
