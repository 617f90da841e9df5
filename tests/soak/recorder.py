"""Records every write and sync of a database, in order, and makes the disks that a power loss could leave.

What was written before the last sync of its file is on the disk. Of what came later, each sector is there or not.
"""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.preload import build

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* 'd' for the database, 'w' for its log, 0 for any other file */
static char kind_of(int file) {
    char link[64], path[4096] = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size > 7 && strcmp(path + size - 7, "meta.db") == 0) return 'd';
    return size > 11 && strcmp(path + size - 11, "meta.db-wal") == 0 ? 'w' : 0;
}

static void note(char what, char kind, int64_t offset, const void *data, int64_t size) {
    static int trace = -1;
    const char *path = getenv("SEMANTICA_TEST_TRACE");
    if (path == NULL) return;
    if (trace < 0) trace = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    struct { char what, kind, unused[6]; int64_t offset, size; } head = {what, kind, {0}, offset, size};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, data ? size : 0}};
    if (writev(trace, parts, 2) < 0) abort();
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    char kind = kind_of(file);
    if (kind) note('W', kind, offset, data, size);
    return REAL(pwrite64)(file, data, size, offset);
}
int ftruncate64(int file, off64_t size) {
    char kind = kind_of(file);
    if (kind) note('T', kind, size, NULL, 0);
    return REAL(ftruncate64)(file, size);
}
static int synced(int file, int result) {
    char kind = kind_of(file);
    if (kind && result == 0) note('S', kind, 0, NULL, 0);
    return result;
}
int fsync(int file) { return synced(file, REAL(fsync)(file)); }
int fdatasync(int file) { return synced(file, REAL(fdatasync)(file)); }
"""
HEAD = struct.Struct("=cc6xqq")
SECTOR = 512
FILES = {b"d": "meta.db", b"w": "meta.db-wal"}


class Operation(NamedTuple):
    """`end`: the size of the trace after it, which tells what was acknowledged before."""

    what: bytes
    file: bytes
    offset: int
    data: bytes
    end: int


class Recorder:
    """`environment` is for the daemon; `before` is a folder that has the database as it was before that daemon."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._trace = folder / "trace"
        self._trace.touch()
        self._before = folder / "before"
        self._before.mkdir()
        shutil.copy(home / "meta.db", self._before)
        library = build(folder, "recorder", SOURCE)
        self.environment = {"LD_PRELOAD": str(library), "SEMANTICA_TEST_TRACE": str(self._trace)}

    def position(self) -> int:
        """Whatever was acknowledged until now is in the trace up to here."""
        return self._trace.stat().st_size

    def operations(self) -> list[Operation]:
        return list(_parse(self._trace.read_bytes()))

    def image(self, until: int, home: Path, random: Random | None) -> None:
        """The disk after a power loss when `until` operations were begun. Without `random`, no unsynced write is on
        it."""
        files = {kind: bytearray(self._read(name)) for kind, name in FILES.items()}
        unsynced: dict[bytes, list[Operation]] = {kind: [] for kind in FILES}
        for operation in self.operations()[:until]:
            unsynced[operation.file].append(operation)
            if operation.what == b"S":
                for one in unsynced[operation.file]:
                    _apply(files[one.file], one, None, whole=True)
                unsynced[operation.file] = []
        for kind, left in unsynced.items():
            for one in left if random is not None else []:
                _apply(files[kind], one, random, whole=False)
        for kind, name in FILES.items():
            (home / name).write_bytes(files[kind])
        (home / "meta.db-shm").unlink(missing_ok=True)

    def _read(self, name: str) -> bytes:
        path = self._before / name
        return path.read_bytes() if path.exists() else b""


def _parse(trace: bytes) -> Iterator[Operation]:
    at = 0
    while at + HEAD.size <= len(trace):
        what, file, offset, size = HEAD.unpack_from(trace, at)
        at += HEAD.size
        yield Operation(what, file, offset, trace[at : at + size], at + size)
        at += size


def _apply(content: bytearray, operation: Operation, random: Random | None, whole: bool) -> None:
    """Without `whole`: one write in two is there, one in four in part."""
    if operation.what == b"T" and (whole or (random and random.random() < 0.5)):
        del content[operation.offset :]
    if operation.what != b"W":
        return
    chance = 1.0 if whole or random is None else random.choice((0.0, 0.5, 1.0, 1.0))
    for start in range(0, len(operation.data), SECTOR):
        if chance == 1.0 or (random is not None and random.random() < chance):
            sector = operation.data[start : start + SECTOR]
            at = operation.offset + start
            content.extend(bytes(max(0, at + len(sector) - len(content))))
            content[at : at + len(sector)] = sector
