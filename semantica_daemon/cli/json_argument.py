"""A JSON object that the user writes on the command line."""

import json

from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.exit_codes import DATA
from semantica_daemon.client.json_types import Json


def parse_object(text: str, what: str) -> Json:
    """`what` names the text in the error."""
    hint = """write it as '{"name": "value"}'"""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{what}: not JSON: {error}", DATA, hint) from None
    if not isinstance(found, dict):
        raise CommandFailed(f"{what}: not a JSON object", DATA, hint)
    return found
