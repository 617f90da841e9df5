"""Disk faults for a daemon under test: a library, loaded before libc, whose file calls fail while a fault is on.

The faults that are on are the words of a file: `sync-wal`, `write-db`, `full` (no room for the WAL), and
`read-after-sync`, which lets reads fail once a sync has failed.
"""

from pathlib import Path

from tests.preload import build

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_on(const char *fault) {
    char text[256] = {0};
    const char *path = getenv("SEMANTICA_TEST_FAULTS");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    return size > 0 && strstr(text, fault) != NULL;
}

static int is_file(int file, const char *end) {
    char link[64], path[4096] = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    size_t length = strlen(end);
    return size > (ssize_t)length && strcmp(path + size - length, end) == 0;
}

#define FAIL(condition) if (condition) { errno = EIO; return -1; }
#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static int sync_has_failed;

static int sync_fails(int file) {
    if (!is_file(file, "meta.db-wal") || !is_on("sync-wal")) return 0;
    sync_has_failed = 1;
    return 1;
}

int fsync(int file) {
    FAIL(sync_fails(file));
    return REAL(fsync)(file);
}
int fdatasync(int file) {
    FAIL(sync_fails(file));
    return REAL(fdatasync)(file);
}
ssize_t pread64(int file, void *data, size_t size, off64_t offset) {
    FAIL(sync_has_failed && (is_file(file, "meta.db") || is_file(file, "meta.db-wal")) && is_on("read-after-sync"));
    return REAL(pread64)(file, data, size, offset);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    FAIL(is_file(file, "meta.db") && is_on("write-db"));
    if (is_file(file, "meta.db-wal") && is_on("full")) { errno = ENOSPC; return -1; }
    return REAL(pwrite64)(file, data, size, offset);
}
"""


class Faults:
    """`environment` is given to a daemon; `switch_on` takes effect with its next call of libc."""

    def __init__(self, folder: Path) -> None:
        library = build(folder, "faults", SOURCE)
        self._file = folder / "faults"
        self._file.touch()
        self.environment = {"LD_PRELOAD": str(library), "SEMANTICA_TEST_FAULTS": str(self._file)}

    def switch_on(self, *faults: str) -> None:
        self._file.write_text(" ".join(faults))
