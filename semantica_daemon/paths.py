"""Where everything lies, as Path objects, for the daemon. `places` finds it, and is what the client imports."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from semantica_daemon import places
from semantica_daemon.places import LONGEST_SOCKET, make_private, shown

__all__ = ["LONGEST_SOCKET", "Paths", "find", "make_private", "shown"]


class Paths(NamedTuple):
    config: Path
    data: Path
    database: Path
    lock: Path
    socket: Path
    log: Path


def find(env: Mapping[str, str]) -> Paths:
    return Paths(*map(Path, places.find(env)))
