"""Where everything lies, as text, and whether a folder is ours alone. Standard library only and light, because the
client pays for every import at every call; `paths` makes Path objects of these for the daemon."""

import os
import stat
import sys
from collections import namedtuple
from collections.abc import Mapping

LONGEST_SOCKET = 103 if sys.platform == "darwin" else 107


# Not typing.NamedTuple: `typing` and `pathlib` together would make the client's start a third longer.
class Places(namedtuple("Places", "config data database lock socket log")):
    __slots__ = ()
    config: str
    data: str
    database: str
    lock: str
    socket: str
    log: str


def find(env: Mapping[str, str]) -> Places:
    """SEMANTICA_HOME moves everything into one folder, SEMANTICA_SOCKET the socket alone."""
    home = env.get("SEMANTICA_HOME")
    if home:
        config = data = logs = runtime = _absolute(home)
    elif sys.platform == "darwin":
        library = os.path.expanduser("~/Library")
        config = data = f"{library}/Application Support/semantica"
        logs = f"{library}/Logs/semantica"
        runtime = _runtime(env)
    else:
        config = _xdg(env, "XDG_CONFIG_HOME", ".config")
        data = _xdg(env, "XDG_DATA_HOME", ".local/share")
        logs = _xdg(env, "XDG_STATE_HOME", ".local/state")
        runtime = _runtime(env)
    named = env.get("SEMANTICA_SOCKET")
    socket = _absolute(named) if named else f"{runtime}/daemon.sock"
    return Places(f"{config}/config.toml", data, f"{data}/meta.db", f"{data}/daemon.lock", socket, f"{logs}/daemon.log")


def _absolute(path: str) -> str:
    """Without resolving `..`: behind a link that is another folder."""
    path = os.path.expanduser(path)
    if not path.startswith("/"):
        path = os.path.join(os.getcwd(), path)
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _xdg(env: Mapping[str, str], name: str, default: str) -> str:
    given = env.get(name, "")
    folder = given if given.startswith("/") else os.path.expanduser(f"~/{default}")
    return _absolute(f"{folder}/semantica")


def _runtime(env: Mapping[str, str]) -> str:
    """$XDG_RUNTIME_DIR, else /run/user/UID, else a folder of our own under the temp dir."""
    for folder in (env.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.getuid()}"):
        if folder.startswith("/") and os.path.isdir(folder):
            return _absolute(f"{folder}/semantica")
    return _absolute(f"{_temporary(env)}/semantica-{os.getuid()}")


def _temporary(env: Mapping[str, str]) -> str:
    """By $TMPDIR alone: client and daemon must agree, whatever either of them may write to."""
    given = env.get("TMPDIR", "")
    return given if given.startswith("/") and os.path.isdir(given) else "/tmp"


def shown(path: "str | os.PathLike[str]") -> str:
    """As text that JSON and a terminal take, also where the name is no UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def make_private(folder: "str | os.PathLike[str]") -> None:
    """Create it 0700, or check that what is there is a folder of ours that nobody else can write to; never chmod."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    try:
        os.mkdir(folder, mode=0o700)
    except FileExistsError:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode):
            raise PermissionError(
                f"{folder} is not a directory (a link, perhaps): remove it, or choose another"
            ) from None
        if found.st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to another user: choose another") from None
        if found.st_mode & 0o022:
            raise PermissionError(
                f"{folder} can be written to by others: choose a folder only you can write to"
            ) from None
