"""`semantica rpc METHOD [JSON]`: any method, its result as JSON. Reached before argparse is even imported."""

import json
import sys

from semantica_daemon.client.codes import DATA
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Failed, Terminal


def call(terminal: Terminal, method: str, text: str | None) -> int:
    params = {} if text is None else document(sys.stdin.read() if text == "-" else text, "the parameters")
    with terminal.client() as client:
        terminal.document(client.call(method, **params))
    return 0


def document(text: str, what: str) -> Json:
    """A JSON object, or the sentence that says where it stops being one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failed(f"{what} are no JSON: {error}", DATA, """write them as '{"name": "value"}'""") from None
    if not isinstance(found, dict):
        raise Failed(f"{what} are no JSON object", DATA, """write them as '{"name": "value"}'""")
    return found
