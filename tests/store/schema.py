"""Ways to look at a schema: columns, definitions, indexes, and the whole as text. As a program it prints the dump:

python -m tests.store.schema > tests/store/schema_NNN.sql, a new one for each release that has a new migration.
"""

import re
import sqlite3
import sys
from pathlib import Path

from semantica_daemon.store.migrate import migrate

Column = tuple[str, str, int, str | None, int]


def columns(connection: sqlite3.Connection, table: str) -> dict[str, Column]:
    """name → (name, type, NOT NULL, default, place in the primary key)"""
    rows = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
    return {row[1]: tuple(row[1:6]) for row in rows}


def definitions(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """name → its definition as written, CHECKs and all, with comments and spacing taken out."""
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    body = re.sub(r"--[^\n]*", "", sql)
    parts = split(body[body.index("(") + 1 : body.rindex(")")])
    return {part.split()[0]: part for part in parts if part.split()[0] in columns(connection, table)}


def split(body: str) -> list[str]:
    """At the commas outside parentheses."""
    parts, depth = [""], 0
    for character in body:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [re.sub(r"\s*([(),])\s*", r"\1", " ".join(part.split())) for part in parts]


def index_columns(connection: sqlite3.Connection, index: str) -> str:
    rows = connection.execute(f"PRAGMA index_xinfo({index})").fetchall()
    return ", ".join(row[2] + (" DESC" if row[3] else "") for row in rows if row[5])


def indexes(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall()
    return {row[0] for row in rows}


def dump(connection: sqlite3.Connection) -> str:
    """The schema and the versions with their checksums, in an order of its own."""
    rows = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' "
        "ORDER BY type = 'table' DESC, type, name"
    ).fetchall()
    versions = connection.execute("SELECT version, description, checksum FROM schema_version ORDER BY 1").fetchall()
    applied = [
        "INSERT INTO schema_version (version, applied_at, description, checksum)\n"
        f"VALUES ({version}, 0, '{description}', '{checksum}')"
        for version, description, checksum in versions
    ]
    return "".join(f"{statement};\n\n" for statement in [*(row[0] for row in rows), *applied]).rstrip() + "\n"


def migrated(path: Path | str = ":memory:", source: Path | None = None) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, 0, source)
    return connection


if __name__ == "__main__":
    sys.stdout.write(dump(migrated()))
