"""Renders the unit files of systemd/ and launchd/ with the paths of this installation, writes them, and compares them
with those that are installed. `client/unit.py` knows their places."""

import os
import sys
from pathlib import Path

from semantica_daemon.client import unit
from semantica_daemon.client.autostart import daemon_environment
from semantica_daemon.paths import Paths

PACKAGE = Path(__file__).resolve().parent.parent
SETS_FOLDERS = ("SEMANTICA_HOME", "SEMANTICA_SOCKET", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")


def rendered(paths: Paths) -> dict[str, str]:
    """The content of each file, by its path."""
    variables = {name: value for name, value in daemon_environment(paths).items() if name in SETS_FOLDERS}
    texts = [_plist(paths, variables)] if unit.IS_MACOS else [_socket(paths), _daemon(paths, variables)]
    return dict(zip(unit.files(), texts, strict=True))


def _template(name: str) -> str:
    """Inside the wheel, or beside the package in an editable install or a checkout."""
    inside = PACKAGE / "units"
    return ((inside if inside.is_dir() else PACKAGE.parent) / name).read_text()


def _command(paths: Paths) -> list[str]:
    """By the interpreter of this command: `semanticad` may not be in the manager's PATH."""
    return [sys.executable, "-P", "-m", "semantica_daemon", "--log-file", paths.log]


def _socket(paths: Paths) -> str:
    return _replace_line(_template(f"systemd/{unit.SOCKET_NAME}"), unit.LISTEN, paths.socket.replace("%", "%%"))


def _daemon(paths: Paths, variables: dict[str, str]) -> str:
    words = [_quoted(word.replace("$", "$$")) for word in _command(paths)]
    text = _replace_line(_template(f"systemd/{unit.NAME}"), "ExecStart=", " ".join(words))
    settings = [_quoted(f"{name}={value}") for name, value in {"PYTHONUTF8": "1", **variables}.items()]
    return _replace_line(text, "Environment=", " ".join(settings))


def _plist(paths: Paths, variables: dict[str, str]) -> str:
    import plistlib  # noqa: PLC0415

    found = plistlib.loads(_template(f"launchd/{unit.LABEL}.plist").encode())
    found["ProgramArguments"] = _command(paths)
    found["EnvironmentVariables"] |= variables
    return plistlib.dumps(found, sort_keys=False).decode()


def _replace_line(text: str, start: str, value: str) -> str:
    lines = [f"{start}{value}" if line.startswith(start) else line for line in text.splitlines()]
    return "\n".join([*lines, ""])


def _quoted(word: str) -> str:
    """For systemd, which replaces % and undoes \\ and quotes."""
    escaped = word.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return word if escaped == word and word.split() == [word] else f'"{escaped}"'


def are_current(paths: Paths) -> bool:
    """Whether every file is there as this version would write it."""
    try:
        return all(Path(path).read_bytes() == text.encode() for path, text in rendered(paths).items())
    except OSError:
        return False


def write(path: str, text: str) -> None:
    """Replaces the file at once: systemd may be reading it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.replace(f"{path}.new", path)
