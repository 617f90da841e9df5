"""Tables: by rich on a terminal, plain aligned columns everywhere else. Rich is imported here and nowhere else."""

import sys
from collections.abc import Sequence
from importlib import import_module

from semantica_daemon.client.shapes import Any
from semantica_daemon.client.terminal import write
from semantica_daemon.client.words import clean

LONGEST, LEAST = 24, 8
COLOURS = {
    "RUNNING": "cyan", "QUEUED": "blue", "SCHEDULED": "blue", "DONE": "green", "FAILED": "red",
    "CANCELLED": "yellow", "SUPERSEDED": "dim", "SKIPPED_TTL": "dim", "SKIPPED_DEADLINE": "dim", "PAUSED": "yellow",
}  # fmt: skip


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], wide: str = "") -> None:
    """`wide` is the column that gives way when the terminal is narrow."""
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty() and _by_rich(columns, cells, wide):
        return
    _plainly([[name.upper() for name in columns], *cells])


def pairs(rows: Sequence[tuple[str, object]]) -> None:
    """Name and value, a line each."""
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        write(f"{name:<{width}}  {clean(str(value))}\n")


def heading(text: str) -> None:
    write(f"\n{text}\n")


def _plainly(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        write(line.rstrip() + "\n")


def _by_rich(columns: Sequence[str], rows: Sequence[Sequence[str]], wide: str) -> bool:
    """False without rich: then plainly."""
    try:
        cells, console, tables, texts = (
            import_module(f"rich.{name}") for name in ("cells", "console", "table", "text")
        )
    except ImportError:
        return False
    screen: Any = console.Console(highlight=False)
    widths = [max(cells.cell_len(row[number]) for row in [columns, *rows]) for number in range(len(columns))]
    drawn: Any = tables.Table(box=None, pad_edge=False, header_style="bold")
    for name, width in zip(columns, _fitting(columns, widths, wide, screen.width), strict=True):
        drawn.add_column(name, no_wrap=True, overflow="ellipsis", width=width)
    for row in rows:
        drawn.add_row(*(texts.Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    screen.print(drawn)
    return True


def _fitting(columns: Sequence[str], widths: Sequence[int], wide: str, room: int) -> list[int]:
    """Rich would take from every column alike; ours are short but for one."""
    short = [width if name == wide else min(width, LONGEST) for name, width in zip(columns, widths, strict=True)]
    if wide not in columns:
        return short
    place = columns.index(wide)
    others = sum(short) - short[place] + 2 * (len(short) - 1)
    short[place] = min(short[place], max(LEAST, room - others))
    return short
