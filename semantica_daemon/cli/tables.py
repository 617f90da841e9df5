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


def table(
    columns: Columns, items: Sequence[Json], flexible: str = "", nothing: str = "", droppable: Sequence[str] = ()
) -> None:
    """`flexible` is the column that is shortened when the terminal is narrow, `droppable` are those that are then left
    out, in this order; `nothing` is noted without items."""
    if not items:
        return print_error(nothing)
    names = list(columns)
    cells = [[clean(_text(item, cell)) for cell in columns.values()] for item in items]
    if not (sys.stdout.isatty() and _print_by_rich(names, cells, flexible, droppable)):
        _print_plain([[name.upper() for name in names], *cells])


def value_of(item: Json, cell: Cell) -> object:
    return item[cell] if isinstance(cell, str) else cell(item)


def _text(item: Json, cell: Cell) -> str:
    value = value_of(item, cell)
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


def _print_by_rich(
    columns: Sequence[str], rows: Sequence[Sequence[str]], flexible: str, droppable: Sequence[str]
) -> bool:
    """False when rich is not installed."""
    if sys.flags.no_site:  # scripts/semantica starts Python without site-packages, where rich is
        import_module("site").main()
    try:
        cells, console, tables, texts = (
            import_module(f"rich.{name}") for name in ("cells", "console", "table", "text")
        )
    except ImportError:
        return False
    widest = {name: max(cells.cell_len(row[number]) for row in [columns, *rows]) for number, name in enumerate(columns)}
    widths = fitted(widest, flexible, droppable, console.Console().width)
    # A console that is wider than the terminal wraps lines; rich would cut cells, and with them ids.
    screen: Any = console.Console(highlight=False, width=max(console.Console().width, _total(widths)))
    drawn: Any = tables.Table(box=None, pad_edge=False, header_style="bold")
    for name, width in widths.items():
        drawn.add_column(name.upper(), no_wrap=True, overflow="ellipsis", width=width)
    for row in rows:
        named = [(name, cell) for name, cell in zip(columns, row, strict=True) if name in widths]
        shown = [cell if name == flexible else _end_of_path(cell, widths[name]) for name, cell in named]
        drawn.add_row(*(texts.Text(cell, style=COLOURS.get(cell, "")) for cell in shown))
    screen.print(drawn)
    return True


def _end_of_path(cell: str, width: int) -> str:
    """A path that is too long, cut at its beginning; other text as it is."""
    return f"…{cell[1 - width :]}" if "/" in cell and len(cell) > width else cell


def fitted(widest: Mapping[str, int], flexible: str, droppable: Sequence[str], room: int) -> dict[str, int]:
    """The widths of the columns that fit the screen. rich would shorten every column alike; here only the flexible one
    is long, and where that is not enough, columns are dropped."""
    fits = {name: width if name == flexible else min(width, WIDEST) for name, width in widest.items()}
    least = min(fits.get(flexible, 0), NARROWEST)
    for name in droppable:
        if _total({**fits, flexible: least} if flexible in fits else fits) <= room:
            break
        fits.pop(name, None)
    if flexible in fits:
        fits[flexible] = min(fits[flexible], max(least, room - _total({**fits, flexible: 0})))
    return fits


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + 2 * (len(widths) - 1)
