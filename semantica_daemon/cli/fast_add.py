"""The fast path of `semantica add [-q] [options] -- COMMAND`: sends the job without json, socket, argparse or re.

It handles the usual arguments, a running daemon and the usual reply. For anything else it returns before it has sent
the job, and the ordinary path (`add`) does the work; a reply that is not usual is handed to `add` and `main`.
"""

import _socket
import os
import sys

from semantica_daemon import paths as locations
from semantica_daemon.cli import last_job
from semantica_daemon.environment import environment_to_send, is_text

# The options that have a value, and the fields they set.
VALUES = {
    "-Q": "queue", "--queue": "queue", "-t": "user_tag", "--tag": "user_tag", "-g": "chain_group_id",
    "--group": "chain_group_id", "-k": "idempotency_key", "--key": "idempotency_key", "-s": "subject_key",
    "--subject": "subject_key",
}  # fmt: skip
LONGEST_TYPE = 128
LATE_S = 8.0
CHUNK = 65_536
INTERRUPTED = 130
# The reply to a job that is simply queued; its id, queue and generation are the parts that vary.
REPLY_START = b'{"jsonrpc":"2.0","id":1,"result":{"job_id":"'
REPLY_STATE = b'","state":"QUEUED","generation":'
REPLY_END = b',"superseded":[],"existing":false,"warnings":[]}}\n'


def run(arguments: list[str]) -> None:
    """Adds the job and exits; returns when the ordinary path has to do it."""
    try:
        for descriptor in (0, 1, 2):
            os.fstat(descriptor)
        spec, quiet = parse(arguments)
        line = request(spec)
        paths = locations.find(os.environ)
        if "SEMANTICA_SOCKET" not in os.environ:
            os.stat(paths.database)  # fails when the daemon has another data folder, of which `add` warns
        connection = _connect(paths.socket)
    except (OSError, ValueError, ImportError):
        return
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    os._exit(_add(connection, line, paths, quiet))


def parse(arguments: list[str]) -> "tuple[dict[str, object], bool]":
    """The JobSpec and whether --quiet is given; ValueError for arguments that the ordinary path has to parse."""
    place = arguments.index("--")
    argv, cwd = arguments[place + 1 :], os.getcwd()
    if not argv or (len(argv) == 1 and " " in argv[0]) or not all(map(is_text, [*arguments, cwd])):
        raise ValueError
    spec, quiet = _options(arguments[:place])
    job_type = job_type_of(argv, spec.get("subject_key"))  # type: ignore[arg-type]
    spec |= command_fields(argv, cwd, current_umask(), job_type)
    spec["environment"] = environment_to_send(os.environ)
    return spec, quiet


def _options(words: list[str]) -> "tuple[dict[str, object], bool]":
    """The fields that are set and whether --quiet is given; ValueError for other options than the usual ones."""
    fields: dict[str, object] = {}
    quiet = False
    rest = iter(words)
    for word in rest:
        if word in VALUES:
            value = next(rest, "")
            if not value or value[0] == "-":
                raise ValueError
            fields[VALUES[word]] = value
        elif word == "--durable":
            fields["durable"] = True
        elif word in ("-q", "--quiet"):
            quiet = True
        elif word != "--no-autostart":
            raise ValueError
    return fields, quiet


def request(spec: "dict[str, object]") -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"job.enqueue","params":%b}\n' % _encoded(spec).encode()


def _encoded(value: object) -> str:
    """JSON of the types that a spec has; `_json` is the accelerator of the json module."""
    from _json import encode_basestring_ascii as text  # noqa: PLC0415

    if isinstance(value, dict):
        return "{" + ",".join([f"{text(name)}:{_encoded(item)}" for name, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_encoded, value)) + "]"
    if isinstance(value, str):
        return text(value)
    return "true" if value is True else str(value)


def _connect(path: str) -> "_socket.socket":
    """Raises OSError when no daemon of this user accepts the connection."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(0)
    connection.connect(path)
    if hasattr(_socket, "SO_PEERCRED"):
        credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(credentials[4:8], sys.byteorder) != os.getuid():
            raise PermissionError
    return connection


def _add(connection: "_socket.socket", line: bytes, paths: locations.Paths, quiet: bool) -> int:
    """Sends the job and prints its id; returns the exit code. Every failure is left to the ordinary path, which meets
    it again: at the connection, or at stdout."""
    reply = b""
    try:
        connection.settimeout(LATE_S)
        connection.sendall(line)
        reply = connection.recv(CHUNK)
        if reply.startswith(REPLY_START) and REPLY_STATE in reply and reply.endswith(REPLY_END):
            job_id = reply[len(REPLY_START) : len(REPLY_START) + 36]
            last_job.remember(paths, job_id.decode())
            os.write(1, job_id + b"\n")
            return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError:
        pass
    from semantica_daemon.cli import add, main  # noqa: PLC0415

    main.secure_streams()
    return main.guarded(lambda: add.finish(connection.detach(), reply, quiet), "add")


def command_fields(argv: list[str], cwd: str, umask: int, job_type: str) -> "dict[str, object]":
    return {
        "execution_mode": "SUBPROCESS",
        "job_type": job_type,
        "payload": {"argv": argv, "cwd": cwd, "umask": umask},
    }


def job_type_of(argv: list[str], subject: str | None) -> str:
    """The command's name. With a subject it is the whole command line, so that a newer `lint a.py` supersedes an older
    one, and not the tests of a.py that the same interpreter runs."""
    name = os.path.basename(argv[0]) if subject is None else " ".join(argv)
    if len(name) <= LONGEST_TYPE:
        return name or "command"
    import zlib  # noqa: PLC0415

    return f"{name[: LONGEST_TYPE - 9]}#{zlib.crc32(name.encode()):08x}"


def current_umask() -> int:
    os.umask(mask := os.umask(0))
    return mask
