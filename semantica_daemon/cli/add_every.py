"""`semantica add --every`: stores the command as a template and makes a schedule of it."""

import os

from semantica_daemon.cli import schedule, template, times
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import Namespace
from semantica_daemon.cli.schedule_options import policies
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused
from semantica_daemon.client.exit_codes import DATA, USAGE
from semantica_daemon.client.json_types import Json

LONGEST_NAME = 40


def run(arguments: Namespace, terminal: Terminal) -> int:
    if arguments.template is not None:
        hint = f"semantica schedule put NAME --template {arguments.template} --cron '{arguments.every}'"
        raise CommandFailed("--every makes a template of its own", USAGE, hint)
    spec = template.spec_of(arguments, terminal, "--every")
    name = arguments.name or name_of(spec)
    params: Json = {"name": name, "cron_expression": arguments.every, "timezone": arguments.zone or times.zone()}
    params |= policies(arguments)
    with terminal.client() as client:
        made = _put_both(client, spec, params)
        schedule.print_put(terminal, client, made["schedule"], made)
    return 0


def _put_both(client: Client, spec: Json, params: Json) -> Json:
    """Puts the template and the schedule. When the schedule is refused, the template is as it was before."""
    name = params["name"]
    before = _existing_template(client, name)
    others = [one for one in before["schedules"] if one != name] if before is not None else []
    if others:
        hint = f"choose another --name, or `semantica template put {name}` to change all of them"
        raise CommandFailed(f"schedule {', '.join(others)} uses the template {name} as well", DATA, hint)
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


def _existing_template(client: Client, name: str) -> Json | None:
    try:
        found: Json = client.call("template.get", template_id=name)
    except CallRefused as refused:
        if refused.data.get("code") != "E_TEMPLATE_NOT_FOUND":
            raise
        return None
    return found


def name_of(spec: Json) -> str:
    """Made of the command and its folder: the same command in the same folder changes the same schedule."""
    import zlib  # noqa: PLC0415

    payload = spec["payload"]
    argv = payload.get("argv") or [spec["job_type"]]
    text = " ".join([os.path.basename(argv[0]), *argv[1:]])
    plain = "-".join("".join(char if char.isascii() and char.isalnum() else " " for char in text).split())
    checksum = zlib.crc32("\0".join([*argv, payload.get("cwd") or ""]).encode())
    return f"{plain[:LONGEST_NAME].rstrip('-') or 'schedule'}-{checksum:08x}"
