"""Makes a template and a schedule of one command, for `semantica add --every` and `semantica on`."""

import os

from semantica_daemon.cli import schedule
from semantica_daemon.cli.command import Any, Json, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.template import spec_of
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused
from semantica_daemon.client.exit_codes import DATA

LONGEST_NAME = 40


def put(arguments: Any, terminal: Terminal, what: str, when: Json, prefix: str = "") -> None:
    """`what`: the option or command, for errors. `when`: the parameters of schedule.put that say when it fires."""
    spec = spec_of(arguments, terminal, what)
    params = {"name": arguments.name or _name_of(spec, prefix), **schedule.settings(arguments, when)}
    with terminal.client() as client:
        made = _put_both(client, spec, params)
        schedule.print_put(terminal, client, made["schedule"], made)


def _put_both(client: Client, spec: Json, params: Json) -> Json:
    """Puts the template and the schedule. When the schedule is refused, the template is as it was before."""
    name = params["name"]
    before = next((one for one in client.call("template.list")["templates"] if one["name"] == name), None)
    others = [one for one in before["schedules"] if one != name] if before is not None else []
    if others:
        hint = f"choose another --name, or `semantica template put {name}` to change all of them"
        raise CommandFailed(f"schedule {', '.join(others)} uses the template {name} as well", hint, DATA)
    stored = client.call("template.put", name=name, spec=spec)
    try:
        made = client.call("schedule.put", template_id=stored["template_id"], **params)
    except CallRefused:
        if before is None:
            client.call("template.delete", template_id=stored["template_id"])
        else:
            client.call("template.put", name=name, spec=before["spec"])
        raise
    return {"template": stored, "schedule": made}


def _name_of(spec: Json, prefix: str) -> str:
    """Made of the command and its folder: the same command in the same folder changes the same schedule."""
    import zlib  # noqa: PLC0415

    argv = spec["payload"].get("argv") or [spec["job_type"]]
    text = " ".join([prefix, os.path.basename(argv[0]), *argv[1:]])
    plain = "-".join("".join(char if char.isascii() and char.isalnum() else " " for char in text).split())
    words = [*([prefix] if prefix else []), *argv, spec["payload"].get("cwd") or ""]
    checksum = zlib.crc32("\0".join(words).encode())
    return f"{plain[:LONGEST_NAME].rstrip('-') or 'schedule'}-{checksum:08x}"
