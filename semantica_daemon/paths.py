"""Where everything lies. Standard library only: the client imports this and nothing else of ours."""

import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

LONGEST_SOCKET = 103 if sys.platform == "darwin" else 107


class Paths(NamedTuple):
    config: Path
    data: Path
    database: Path
    lock: Path
    socket: Path
    log: Path


def find(env: Mapping[str, str]) -> Paths:
    """SEMANTICA_HOME moves everything into one folder, SEMANTICA_SOCKET the socket alone."""
    home = env.get("SEMANTICA_HOME")
    if home:
        config = data = logs = runtime = Path(home).expanduser().absolute()
    elif sys.platform == "darwin":
        support = Path.home() / "Library"
        config = data = support / "Application Support" / "semantica"
        logs = support / "Logs" / "semantica"
        runtime = _runtime(env)
    else:
        config = _xdg(env, "XDG_CONFIG_HOME", ".config")
        data = _xdg(env, "XDG_DATA_HOME", ".local/share")
        logs = _xdg(env, "XDG_STATE_HOME", ".local/state")
        runtime = _runtime(env)
    named = env.get("SEMANTICA_SOCKET")
    socket = Path(named).expanduser().absolute() if named else runtime / "daemon.sock"
    return Paths(config / "config.toml", data, data / "meta.db", data / "daemon.lock", socket, logs / "daemon.log")


def _xdg(env: Mapping[str, str], name: str, default: str) -> Path:
    given = env.get(name, "")
    base = Path(given) if given.startswith("/") else Path.home() / default
    return base / "semantica"


def _runtime(env: Mapping[str, str]) -> Path:
    """$XDG_RUNTIME_DIR, else /run/user/UID, else a folder of our own under the temp dir."""
    for folder in (env.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.getuid()}"):
        if folder.startswith("/") and os.path.isdir(folder):
            return Path(folder) / "semantica"
    return Path(tempfile.gettempdir()) / f"semantica-{os.getuid()}"


def shown(path: Path) -> str:
    """As text that JSON and a terminal take, also where the name is no UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def make_private(folder: Path) -> None:
    """Create it 0700, or check that what is there is a folder of ours that nobody else can write to; never chmod."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
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
