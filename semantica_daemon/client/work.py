"""What a job does: a command with its surroundings, a handler's payload, or what a template says."""

import os
import sys

from semantica_daemon.client import words
from semantica_daemon.client.calling import document
from semantica_daemon.client.codes import DATA, USAGE
from semantica_daemon.client.connection import Client
from semantica_daemon.client.parser import Namespace
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.surroundings import is_text, may_go, variables
from semantica_daemon.client.terminal import Failed

LARGEST_STDIN = 10_000_000
LONGEST_TYPE = 128
SURROUNDINGS = ("cwd", "umask", "env", "env_all", "stdin")


def asked(arguments: Namespace) -> Json:
    """Fields of a JobSpec."""
    if getattr(arguments, "template", None) is not None:
        return _over_template(arguments)
    return _command(arguments) if arguments.command else _handler(arguments)


def _over_template(arguments: Namespace) -> Json:
    """What is given here and now; `completed` adds what only the template knows."""
    found = _command(arguments) if arguments.command else _changes(arguments)
    found.pop("job_type", None)
    named = {} if arguments.type is None else {"job_type": arguments.type}
    return {**found, **named, "template_id": arguments.template}


def _changes(arguments: Namespace) -> Json:
    payload = _payload(arguments)
    if arguments.cwd is not None:
        payload["cwd"] = _folder(arguments.cwd)
    if arguments.umask is not None:
        payload["umask"] = arguments.umask
    if arguments.stdin:
        payload["stdin"] = _stdin()
    if not (arguments.env or arguments.env_all):
        return {"payload": payload}
    return {"payload": payload, "env_vars": _variables(arguments, bare=not arguments.env_all)}


def completed(client: Client, spec: Json) -> Json:
    """With the template's type, and its variables under those that are given."""
    if "template_id" not in spec:
        return spec
    template = client.call("template.get", template_id=spec["template_id"])["spec"]
    found = {"job_type": template["job_type"], **spec}
    if "env_vars" in spec:
        found["env_vars"] = {**(template.get("env_vars") or {}), **spec["env_vars"]}
    return found


def _handler(arguments: Namespace) -> Json:
    """A job without a command: its type names a handler of the daemon."""
    if arguments.type is None:
        raise Failed("nothing to run", USAGE, "give a command after --, or --type and --payload for a handler")
    for name in SURROUNDINGS:
        if getattr(arguments, name):
            raise Failed(f"--{name.replace('_', '-')} goes with a command, and there is none", USAGE)
    return {"job_type": arguments.type, "payload": _payload(arguments)}


def _payload(arguments: Namespace) -> Json:
    return {} if arguments.payload is None else document(_payload_text(arguments.payload), "the payload's words")


def _payload_text(given: str) -> str:
    if given == "-":
        return sys.stdin.read()
    if not given.startswith("@"):
        return given
    try:
        with open(given[1:], encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"--payload {given}: {error}", DATA) from None


def _command(arguments: Namespace) -> Json:
    argv = [text(word, "the command") for word in arguments.command]
    if arguments.payload is not None:
        raise Failed("a command and --payload are both given", USAGE, "choose one")
    mask = arguments.umask
    if mask is None:
        os.umask(mask := os.umask(0))
    payload: Json = {"argv": argv, "cwd": _folder(arguments.cwd), "umask": mask}
    if arguments.stdin:
        payload["stdin"] = _stdin()
    name = arguments.type or _type_of(argv, arguments.subject or arguments.newest_wins)
    mode = {"execution_mode": "SUBPROCESS", "job_type": name}
    return {**mode, "payload": payload, "env_vars": _variables(arguments)}


def _type_of(argv: list[str], subject: str | None) -> str:
    """The command's own name. With a subject it is the whole command: a newer `lint a.py` replaces an older one, and
    not the tests of a.py that happen to be run by the same interpreter."""
    name = os.path.basename(argv[0]) if subject is None else " ".join(argv)
    if len(name) <= LONGEST_TYPE:
        return name or "command"
    import zlib  # noqa: PLC0415

    return f"{name[: LONGEST_TYPE - 9]}#{zlib.crc32(name.encode()):08x}"


def _folder(given: str | None) -> str:
    try:
        here = "/" if given and os.path.isabs(given) else os.getcwd()
    except FileNotFoundError:
        raise Failed("the folder you are in is gone", DATA, "go to another, or give --cwd with a whole path") from None
    folder = os.path.normpath(os.path.join(here, given)) if given else here
    if not os.path.isdir(folder):
        raise Failed(f"--cwd {given}: there is no such folder", DATA)
    return text(folder, "the folder")


def _stdin() -> str:
    data = sys.stdin.buffer.read(LARGEST_STDIN + 1) if sys.stdin is not None else b""
    if len(data) > LARGEST_STDIN:
        raise Failed("stdin has more than 10 MB", DATA, "put it into a file and give the command its name")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        hint = "put it into a file and give the command its name"
        raise Failed(f"stdin is not UTF-8 text (byte {error.start})", DATA, hint) from None


def _variables(arguments: Namespace, bare: bool = False) -> dict[str, str]:
    """The caller's, by the list or all of them, and those that are asked for by name; `bare`: only these."""
    found = {} if bare else variables(os.environ, arguments.env_all)
    for given_one in arguments.env:
        name, given, value = given_one.partition("=")
        if not may_go(name):
            raise Failed(f"--env {words.clean(name)}: no job can be given a variable of this name", USAGE)
        if not given and name not in os.environ:
            raise Failed(f"--env {name}: it is not set here", USAGE, f"set it, or write --env {name}=VALUE")
        found[name] = text(value if given else os.environ[name], f"${name}")
    return found


def text(word: str, what: str) -> str:
    if not is_text(word):
        raise Failed(f"{what} is not UTF-8: {words.clean(word)}", DATA)
    return word
