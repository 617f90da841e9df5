"""Types of results. mypy reads results.pyi, which `scripts/protocol-docs` makes from the wire; at run time they are
dicts, because importing `typing` would make every command a tenth slower."""

from semantica_daemon.client.json_types import Json

Ack = CancelResult = Event = Job = Json
