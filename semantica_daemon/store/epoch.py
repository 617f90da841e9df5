"""The epoch of the event stream, and the mark of an open database. A sequence number means one event only within an
epoch.

A power loss may take the newest commits, with their sequence numbers, although callers and subscribers have seen them.
So a database that was not closed, and was last open in another boot, gets a new epoch.
"""

import sqlite3

OPENED_IN = "SELECT value FROM facts WHERE name = 'opened_in_boot'"
NOTE_OPENED = "INSERT OR REPLACE INTO facts (name, value) VALUES ('opened_in_boot', ?)"
NOTE_CLOSED = "DELETE FROM facts WHERE name = 'opened_in_boot'"
RENEW_EPOCH = "UPDATE facts SET value = lower(hex(randomblob(8))) WHERE name = 'epoch'"
UNKNOWN_BOOT = "unknown"


def mark_open(connection: sqlite3.Connection, boot_id: str) -> bool:
    """Stores, synced to disk, that the database is open. Returns whether commits may be lost; then the epoch is new."""
    row = connection.execute(OPENED_IN).fetchone()
    if row is not None and row[0] == boot_id != UNKNOWN_BOOT:
        return False
    if row is None:
        _commit_synced(connection, (NOTE_OPENED, (boot_id,)))
        return False
    _commit_synced(connection, (NOTE_OPENED, (boot_id,)), (RENEW_EPOCH, ()))
    return True


def mark_closed(connection: sqlite3.Connection) -> None:
    """Stores that the database is closed, with all commits on disk, by a commit that is synced itself."""
    _commit_synced(connection, (NOTE_CLOSED, ()))


def _commit_synced(connection: sqlite3.Connection, *statements: tuple[str, tuple[str, ...]]) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    for statement, values in statements:
        connection.execute(statement, values)
    connection.execute("COMMIT")
    connection.execute("PRAGMA synchronous = NORMAL")
