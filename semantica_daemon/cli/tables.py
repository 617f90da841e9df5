"""Tables and lists of pairs: by rich on a terminal, as plain aligned columns elsewhere. Only this file imports rich."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module

from semantica_daemon.cli.format import clean
from semantica_daemon.cli.terminal import print_error, write
from semantica_daemon.client.json_types import Any, Json

Cell = str | Callable[[Json], object]  # a field of the item, or a function of it
Columns = Mapping[str, Cell]

WIDEST, NARROWEST = 24, 8
COLOURS = {
    "RUNNING": "cyan", "QUEUED": "blue", "SCHEDULED": "blue", "DONE": "green", "FAILED": "red",
    "CANCELLED": "yellow", "SUPERSEDED": "dim", "SKIPPED_TTL": "dim", "SKIPPED_DEADLINE": "dim", "PAUSED": "yellow",
}  # fmt: skip


def table(columns: Columns, items: Sequence[Json], flexible: str = "", nothing: str = "") -> None:
    """`flexible` is the column that is shortened when the terminal is narrow; `nothing` is noted without items."""
    if not items:
        return print_error(nothing)
    names = list(columns)
    cells = [[clean(_text(item, cell)) for cell in columns.values()] for item in items]
    if not (sys.stdout.isatty() and _print_by_rich(names, cells, flexible)):
        _print_plain([[name.upper() for name in names], *cells])


def _text(item: Json, cell: Cell) -> str:
    value = item[cell] if isinstance(cell, str) else cell(item)
    return "-" if value is None else str(value)


def pairs(rows: Iterable[tuple[str, object]]) -> None:
    """One name and value on each line; a value that is None is left out."""
    shown = [(name, value) for name, value in rows if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        write(f"{name:<{width}}  {clean(str(value))}\n")


def heading(text: str) -> None:
    write(f"\n{text}\n")


def _print_plain(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        write(line.rstrip() + "\n")


def _print_by_rich(columns: Sequence[str], rows: Sequence[Sequence[str]], flexible: str) -> bool:
    """False when rich is not installed."""
    if sys.flags.no_site:  # scripts/semantica starts Python without site-packages, where rich is
        import_module("site").main()
    try:
        cells, console, tables, texts = (
            import_module(f"rich.{name}") for name in ("cells", "console", "table", "text")
        )
    except ImportError:
        return False
    screen: Any = console.Console(highlight=False)
    widths = [max(cells.cell_len(row[number]) for row in [columns, *rows]) for number in range(len(columns))]
    drawn: Any = tables.Table(box=None, pad_edge=False, header_style="bold")
    for name, width in zip(columns, _fitted(columns, widths, flexible, screen.width), strict=True):
        drawn.add_column(name, no_wrap=True, overflow="ellipsis", width=width)
    for row in rows:
        drawn.add_row(*(texts.Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    screen.print(drawn)
    return True


def _fitted(columns: Sequence[str], widths: Sequence[int], flexible: str, room: int) -> list[int]:
    """The widths that fit the screen: rich would shorten every column alike, here only the flexible one is long."""
    fitted = [width if name == flexible else min(width, WIDEST) for name, width in zip(columns, widths, strict=True)]
    if flexible not in columns:
        return fitted
    place = columns.index(flexible)
    others = sum(fitted) - fitted[place] + 2 * (len(fitted) - 1)
    fitted[place] = min(fitted[place], max(NARROWEST, room - others))
    return fitted
