"""Types of decoded JSON. mypy reads json_types.pyi; at run time these stand in, because importing `typing` would make
every command a tenth slower."""

Any = object
Json = dict[str, object]
