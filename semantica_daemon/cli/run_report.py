"""Sends what a job reports about its own run: the environment of the job names the socket and the run's token.
`progress`, `log` and `result` are the commands."""

import os

from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.json_types import Any

TOKEN = "SEMANTICA_RUN_TOKEN"


def send(terminal: Terminal, method: str, **fields: Any) -> None:
    token = os.environ.get(TOKEN)
    if not token:
        command = method.partition(".")[2]
        hint = f"only a command that Semantica runs can report: semantica run -- sh -c 'semantica {command} …'"
        raise CommandFailed(f"{command}: this is not a job: ${TOKEN} is not set", hint)
    ack = terminal.call(method, run_token=token, **fields)
    if terminal.as_json:
        terminal.print_json(ack)
