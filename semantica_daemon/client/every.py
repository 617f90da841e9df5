"""`semantica add --every`: the command as a template, and a schedule that makes a job of it again and again."""

import os

from semantica_daemon.client import schedules, templates, times
from semantica_daemon.client.codes import DATA, USAGE
from semantica_daemon.client.connection import CallRefused, Client
from semantica_daemon.client.parser import Namespace
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Failed, Terminal

LONGEST_NAME = 40


def add(arguments: Namespace, terminal: Terminal) -> int:
    if arguments.template is not None:
        hint = f"semantica schedule put NAME --template {arguments.template} --cron '{arguments.every}'"
        raise Failed("--every makes a template of its own", USAGE, hint)
    spec = templates.spec_of(arguments, terminal, "--every")
    name = arguments.name or name_of(spec)
    asked: Json = {"name": name, "cron_expression": arguments.every, "timezone": arguments.zone or times.zone()}
    asked |= {policy: value for policy in ("misfire", "overlap") if (value := getattr(arguments, policy)) is not None}
    with terminal.client() as client:
        answers = _put(client, spec, asked)
        schedules.told(terminal, client, answers["schedule"], answers)
    return 0


def _put(client: Client, spec: Json, schedule: Json) -> Json:
    """Both or none: a schedule that is refused leaves the template as it was."""
    name = schedule["name"]
    before = _template(client, name)
    others = [one for one in before["schedules"] if one != name] if before is not None else []
    if others:
        hint = f"choose another --name, or `semantica template put {name}` if all of them are meant"
        raise Failed(f"schedule {', '.join(others)} uses the template {name} as well", DATA, hint)
    template = client.call("template.put", name=name, spec=spec)
    try:
        made = client.call("schedule.put", template_id=template["template_id"], **schedule)
    except CallRefused:
        if before is None:
            client.call("template.delete", template_id=template["template_id"])
        else:
            client.call("template.put", name=name, spec=before["spec"])
        raise
    return {"template": template, "schedule": made}


def _template(client: Client, name: str) -> Json | None:
    try:
        found: Json = client.call("template.get", template_id=name)
    except CallRefused as refused:
        if refused.data.get("code") != "E_TEMPLATE_NOT_FOUND":
            raise
        return None
    return found


def name_of(spec: Json) -> str:
    """Of the command and its folder: the same line again changes the schedule, in another folder it makes another."""
    import zlib  # noqa: PLC0415

    payload = spec["payload"]
    argv = payload.get("argv") or [spec["job_type"]]
    words = " ".join([os.path.basename(argv[0]), *argv[1:]])
    plain = "-".join("".join(char if char.isascii() and char.isalnum() else " " for char in words).split())
    mark = zlib.crc32("\0".join([*argv, payload.get("cwd") or ""]).encode())
    return f"{plain[:LONGEST_NAME].rstrip('-') or 'schedule'}-{mark:08x}"
