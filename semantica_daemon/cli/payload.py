"""What a job runs: a command with its folder, umask, stdin and variables, a handler's payload, or a template."""

import json
import os
import sys

from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.fast_add import command_fields, current_umask, job_type_of
from semantica_daemon.cli.format import clean
from semantica_daemon.client.client import Client
from semantica_daemon.client.exit_codes import DATA
from semantica_daemon.client.json_types import Any, Json
from semantica_daemon.environment import allowed, environment_to_send, is_text, may_be_given, variables_to_send

LARGEST_STDIN = 10_000_000
FOR_COMMANDS = ("cwd", "umask", "env", "env_all", "clean_env", "stdin")
USE_A_FILE = "put it into a file and pass the file's name to the command"


def fields(arguments: Any, in_template: bool = False) -> Json:
    """The fields of a JobSpec that say what is run. A template and its jobs have only the short list of the caller's
    variables, so that what they do depends little on the shell that made them."""
    if arguments.clean_env and arguments.env_all:
        raise CommandFailed("--clean-env and --env-all are both given", "give only one of them")
    if getattr(arguments, "template", None) is not None:
        return _changes_to_template(arguments)
    if not arguments.command:
        return _handler(arguments)
    if getattr(arguments, "external", False):
        return _for_worker(_command(arguments), arguments)
    return _command(arguments) | ({"env_vars": _variables(arguments)} if in_template else _environment(arguments))


def _changes_to_template(arguments: Any) -> Json:
    """The fields that override the template; `complete` adds the rest from it."""
    found = _command(arguments) | {"env_vars": _variables(arguments)} if arguments.command else _changes(arguments)
    found.pop("job_type", None)
    named = {} if arguments.type is None else {"job_type": arguments.type}
    if getattr(arguments, "external", False):
        named["execution_mode"] = "EXTERNAL"
    return {**found, **named, "template_id": arguments.template}


def _changes(arguments: Any) -> Json:
    payload = _payload(arguments)
    if arguments.cwd is not None:
        payload["cwd"] = folder(arguments.cwd)
    if arguments.umask is not None:
        payload["umask"] = arguments.umask
    if arguments.stdin:
        payload["stdin"] = _stdin_to_store()
    variables = _variables(arguments) if arguments.env_all else named_texts(arguments)
    return {"payload": payload} | ({"env_vars": variables} if variables else {})


def complete(client: Client, spec: Json) -> Json:
    """Adds the job type of the spec's template, and the template's variables beneath the given ones."""
    if "template_id" not in spec:
        return spec
    template = client.call("template.get", template_id=spec["template_id"])["spec"]
    found = {"job_type": template["job_type"], **spec}
    if "env_vars" in spec:
        found["env_vars"] = {**(template.get("env_vars") or {}), **spec["env_vars"]}
    return found


def _handler(arguments: Any) -> Json:
    """A job without a command: its type names a handler of the daemon."""
    if arguments.type is None:
        hint = "give a command after --, or --type and --payload for a handler"
        raise CommandFailed("there is nothing to run", hint)
    external = getattr(arguments, "external", False)
    for name in FOR_COMMANDS:
        if getattr(arguments, name) and not (external and name == "env"):
            raise CommandFailed(f"--{name.replace('_', '-')} needs a command, and none is given")
    found = {"job_type": arguments.type, "payload": _payload(arguments)}
    return _for_worker(found, arguments) if external else found


def _for_worker(found: Json, arguments: Any) -> Json:
    """A worker has an environment of its own, so only the variables that are named are sent."""
    variables = named_texts(arguments)
    return {**found, "execution_mode": "EXTERNAL"} | ({"env_vars": variables} if variables else {})


def _payload(arguments: Any) -> Json:
    return {} if arguments.payload is None else given_object(arguments.payload)


def given_object(text: str) -> Json:
    """The value of --payload: JSON, - for stdin, or @ and the name of a file."""
    return parse_object(_payload_text(text), "the payload")


def _payload_text(given: str) -> str:
    if given == "-":
        return sys.stdin.read()
    if not given.startswith("@"):
        return given
    try:
        with open(given[1:], encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"--payload {given}: {error}", exit_code=DATA) from None


def default_type(arguments: Any, argv: list[str], subject: str | None) -> str:
    """With --append all commands of a subject are one lane, with --gather those of one name, whatever arguments they
    have."""
    if subject is not None and (arguments.append or arguments.supersede == "append"):
        return "command"
    return job_type_of(argv, None if subject is None or arguments.gather else subject)


def _command(arguments: Any) -> Json:
    argv = [check_text(word, "the command") for word in arguments.command]
    if arguments.payload is not None:
        raise CommandFailed("a command and --payload are both given", "give only one of them")
    umask = current_umask() if arguments.umask is None else arguments.umask
    job_type = arguments.type or default_type(arguments, argv, arguments.subject or arguments.newest_wins)
    found: Json = command_fields(argv, folder(arguments.cwd), umask, job_type)
    if arguments.stdin:
        found["payload"]["stdin"] = _stdin_to_store()
    return found


def folder(given: str | None) -> str:
    """The folder that --cwd names, as an absolute path."""
    try:
        here = "/" if given and os.path.isabs(given) else os.getcwd()
    except FileNotFoundError:
        hint = "change to another folder, or give --cwd with an absolute path"
        raise CommandFailed("the current folder does not exist any more", hint, DATA) from None
    found = os.path.normpath(os.path.join(here, given)) if given else here
    if not os.path.isdir(found):
        raise CommandFailed(f"--cwd {given}: there is no such folder", exit_code=DATA)
    return check_text(found, "the folder")


def _stdin_to_store() -> str:
    """A payload is stored as JSON, and its limit is that of the JSON."""
    text = read_stdin()
    if len(json.dumps(text, ensure_ascii=False).encode()) > LARGEST_STDIN:
        raise CommandFailed("stdin has more than 10 MB as JSON, where a newline takes 2 bytes", USE_A_FILE, DATA)
    return text


def read_stdin() -> str:
    """All of it, as text."""
    data = sys.stdin.buffer.read(LARGEST_STDIN + 1) if sys.stdin is not None else b""
    if len(data) > LARGEST_STDIN:
        raise CommandFailed("stdin has more than 10 MB", USE_A_FILE, DATA)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CommandFailed(f"stdin is not UTF-8 text (byte {error.start})", USE_A_FILE, DATA) from None


def _environment(arguments: Any) -> Json:
    """The caller's whole environment, or the short list of it, and the variables named by --env: those that are not
    UTF-8 as a part of the environment, which can hold them."""
    chosen = allowed(os.environ) if arguments.clean_env else dict(os.environ)
    cwd = None if arguments.cwd is None else folder(arguments.cwd)
    named = _named(arguments)
    texts = {name: value for name, value in named.items() if is_text(value)}
    others = {name: value for name, value in named.items() if name not in texts}
    return {"environment": environment_to_send(chosen | others, cwd)} | ({"env_vars": texts} if texts else {})


def _variables(arguments: Any) -> dict[str, str]:
    """The caller's variables, those of the short list or all of them, and those named by --env."""
    return variables_to_send(os.environ, arguments.env_all) | named_texts(arguments)


def named_texts(arguments: Any) -> dict[str, str]:
    """The variables that --env names."""
    return {name: check_text(value, f"${name}") for name, value in _named(arguments).items()}


def _named(arguments: Any) -> dict[str, str]:
    found = {}
    for text in arguments.env:
        name, given, value = text.partition("=")
        if not may_be_given(name):
            raise CommandFailed(f"--env {clean(name)}: a job cannot be given a variable of this name")
        if not given and name not in os.environ:
            raise CommandFailed(f"--env {name}: it is not set here", f"set it, or write --env {name}=VALUE")
        found[name] = value if given else os.environ[name]
    return found


def check_text(word: str, what: str) -> str:
    if not is_text(word):
        raise CommandFailed(f"{what} is not UTF-8: {clean(word)}", exit_code=DATA)
    return word


def parse_object(text: str, what: str) -> Json:
    """`what` names the text in the error."""
    hint = """write it as '{"name": "value"}'"""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{what}: not JSON: {error}", hint, DATA) from None
    if not isinstance(found, dict):
        raise CommandFailed(f"{what}: not a JSON object", hint, DATA)
    return found
