"""Where the files and the socket of one user's daemon are, and the check that a folder belongs to that user alone.

The paths are text, and this module imports little: the command line loads it at every start.
"""

import os
import stat
import sys

LONGEST_SOCKET = 103 if sys.platform == "darwin" else 107
HOME = "SEMANTICA_HOME"
# Of a daemon whose files are not in one folder. They go before XDG_* and HOME, which a job may have changed.
FOLDERS = ("SEMANTICA_CONFIG_DIR", "SEMANTICA_DATA_DIR", "SEMANTICA_LOG_DIR")


class Paths:
    """Not a NamedTuple or a dataclass: importing either costs a tenth of a command's start."""

    def __init__(self, config: str, data: str, database: str, lock: str, socket: str, log: str) -> None:
        self.config = config
        self.data = data
        self.database = database
        self.lock = lock
        self.socket = socket
        self.log = log

    def as_dict(self) -> dict[str, str]:
        return dict(vars(self))

    def job_variables(self) -> dict[str, str]:
        """The variables that lead a command inside a job to these paths, whatever else is in its environment."""
        folders = os.path.dirname(self.config), self.data, os.path.dirname(self.log)
        found = {HOME: self.data} if len(set(folders)) == 1 else dict(zip(FOLDERS, folders, strict=True))
        return {**found, "SEMANTICA_SOCKET": self.socket}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Paths) and self.as_dict() == other.as_dict()


def find(env: "os._Environ[str] | dict[str, str]") -> Paths:
    """SEMANTICA_HOME moves everything into one folder, SEMANTICA_SOCKET moves the socket alone."""
    home = env.get(HOME)
    if home:
        config = data = logs = runtime = _absolute(home)
    else:
        config, data, logs = _folders(env)
        runtime = _runtime(env)
    named = env.get("SEMANTICA_SOCKET")
    socket = _absolute(named) if named else f"{runtime}/daemon.sock"
    return Paths(f"{config}/config.toml", data, f"{data}/meta.db", f"{data}/daemon.lock", socket, f"{logs}/daemon.log")


def _folders(env: "os._Environ[str] | dict[str, str]") -> tuple[str, str, str]:
    """Of the config file, of the data and of the log: those of the daemon inside a job, else the usual ones."""
    if all(name in env for name in FOLDERS):
        config, data, logs = (env[name] for name in FOLDERS)
        return config, data, logs
    if sys.platform == "darwin":
        library = os.path.expanduser("~/Library")
        support = f"{library}/Application Support/semantica"
        return support, support, f"{library}/Logs/semantica"
    config, data = _xdg(env, "XDG_CONFIG_HOME", ".config"), _xdg(env, "XDG_DATA_HOME", ".local/share")
    return config, data, _xdg(env, "XDG_STATE_HOME", ".local/state")


def _absolute(path: str) -> str:
    """Does not resolve `..`: behind a symbolic link that would be another folder."""
    path = os.path.expanduser(path)
    if not path.startswith("/"):
        path = os.path.join(os.getcwd(), path)
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _xdg(env: "os._Environ[str] | dict[str, str]", name: str, default: str) -> str:
    given = env.get(name, "")
    folder = given if given.startswith("/") else os.path.expanduser(f"~/{default}")
    return _absolute(f"{folder}/semantica")


def _runtime(env: "os._Environ[str] | dict[str, str]") -> str:
    """$XDG_RUNTIME_DIR, else /run/user/UID, else a folder of our own under the temp dir."""
    for folder in (env.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.getuid()}"):
        if folder.startswith("/") and os.path.isdir(folder):
            return _absolute(f"{folder}/semantica")
    return _absolute(f"{_temporary(env)}/semantica-{os.getuid()}")


def _temporary(env: "os._Environ[str] | dict[str, str]") -> str:
    """By $TMPDIR alone: client and daemon must agree, whatever either of them may write to."""
    given = env.get("TMPDIR", "")
    return given if given.startswith("/") and os.path.isdir(given) else "/tmp"


def printable(path: "str | os.PathLike[str]") -> str:
    """The path as text for JSON and terminals; bytes that are not UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def make_private(folder: "str | os.PathLike[str]") -> None:
    """Creates the folder with mode 0700, or checks that the existing one belongs to this user alone; never chmods."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    try:
        os.mkdir(folder, mode=0o700)
    except FileExistsError:
        found = os.lstat(folder)
        problem = ""
        if not stat.S_ISDIR(found.st_mode):
            problem = "is not a directory (perhaps a link): remove it, or choose another"
        elif found.st_uid != os.getuid():
            problem = "belongs to another user: choose another"
        elif found.st_mode & 0o022:
            problem = "can be written to by others: choose a folder that only you can write to"
        if problem:
            raise PermissionError(f"{folder} {problem}") from None
