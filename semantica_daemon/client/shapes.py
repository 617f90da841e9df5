"""What the client calls JSON. `typing` alone is a tenth of its start: mypy reads shapes.pyi, Python these two names."""

Any = object
Json = dict[str, object]
