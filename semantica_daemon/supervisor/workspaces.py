"""The folder of a job. Making one is cheap and removing one is not (ext4: two milliseconds): a run that has left
nothing behind gives its folder back, and the next job is given that, by a rename."""

import os
import stat
from contextlib import suppress

from semantica_daemon.supervisor.order import NotStarted

SPARE = ".spare"
OUTPUT = "output"
PRIVATE = stat.S_IFDIR | 0o700


class Workspaces:
    def __init__(self, root: str) -> None:
        self._folder = f"{root}/{SPARE}"
        self._spare: list[str] = []
        self._made = 0
        with suppress(FileNotFoundError):
            self._spare += [entry.path for entry in os.scandir(self._folder)]

    def take(self, path: str) -> None:
        """A job that has run before has one already."""
        if self._spare and not os.path.lexists(path):
            with suppress(OSError):
                os.rename(self._spare.pop(), path)
                return
        try:
            for folder in (self._folder, path, f"{path}/{OUTPUT}"):
                _make(folder)
        except OSError as error:
            message = f"its folder {path} cannot be made: {error.strerror}"
            raise NotStarted(message, "workspace", error.errno or 0, again=True) from error

    def give_back(self, path: str) -> None:
        """If there is nothing in it."""
        with suppress(OSError):
            if os.listdir(path) != [OUTPUT] or os.listdir(f"{path}/{OUTPUT}"):
                return
            if any(os.lstat(folder).st_mode != PRIVATE for folder in (path, f"{path}/{OUTPUT}")):
                return
            spare = f"{self._folder}/{os.getpid()}-{self._made}"
            os.rename(path, spare)
            self._made += 1
            self._spare.append(spare)

    def close(self) -> None:
        for spare in self._spare:
            with suppress(OSError):
                os.rmdir(f"{spare}/{OUTPUT}")
                os.rmdir(spare)


def _make(folder: str) -> None:
    """Nobody else may look into it, nor into what is above it if that is new."""
    with suppress(FileExistsError):
        try:
            os.mkdir(folder, 0o700)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(folder), 0o700, exist_ok=True)
            os.mkdir(folder, 0o700)
