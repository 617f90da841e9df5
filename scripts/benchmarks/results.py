"""Samples become results with a verdict; results become a table or JSON."""

import os
import platform
import sqlite3
import statistics
from typing import Any

import msgspec
from msgspec import Struct

HEADINGS = ("what", "target", "measured", "beside", "ratio", "spread", "")
VERDICTS = {True: "PASS", False: "MISS", None: ""}


class Target(Struct, frozen=True):
    """Bounds the ratio to what is measured beside the figure, named by `times`; without it, the figure itself."""

    limit: float
    at_least: bool = False
    times: str | None = None

    def met(self, measured: float, ratio: float | None) -> bool:
        value = ratio if self.times and ratio is not None else measured
        return value >= self.limit if self.at_least else value <= self.limit

    def text(self, unit: str) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.limit:g} × {self.times}" if self.times else f"{sign} {shown(self.limit, unit)}"


class Result(Struct, frozen=True):
    """Medians and their ratio; `ratios` are those of samples that were taken one right after the other. `passed` is
    None without a target."""

    name: str
    what: str
    unit: str
    target: str | None
    measured: float
    beside: float | None
    ratio: float | None
    passed: bool | None
    samples: list[float]
    beside_samples: list[float]
    ratios: list[float]


class Figure(Struct, frozen=True):
    """What is measured several times, and its target; without one it is only shown."""

    name: str
    what: str
    unit: str
    target: Target | None

    def result(self, samples: list[float], beside: list[float] | None = None, inverse: bool = False) -> Result:
        """`inverse`: for a rate, the ratio is how many times slower it is."""
        ratios = [one / other for one, other in zip(samples, beside or [], strict=bool(beside))]
        if inverse:
            ratios = [1 / ratio for ratio in ratios]
        measured = statistics.median(samples)
        ratio = measured / statistics.median(beside) if beside else None
        if ratio is not None and inverse:
            ratio = 1 / ratio
        return Result(
            name=self.name,
            what=self.what,
            unit=self.unit,
            target=self.target.text(self.unit) if self.target else None,
            measured=measured,
            beside=statistics.median(beside) if beside else None,
            ratio=ratio,
            passed=self.target.met(measured, ratio) if self.target else None,
            samples=samples,
            beside_samples=beside or [],
            ratios=ratios,
        )


def shown(value: float, unit: str) -> str:
    digits = 0 if value >= 1000 else 1 if value >= 10 else 3
    return f"{value:,.{digits}f} {unit}"


def table(results: list[Result]) -> str:
    return columns([HEADINGS, *(_cells(result) for result in results)])


def columns(rows: list[tuple[str, ...]]) -> str:
    """The first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths).rstrip())
    return "\n".join(lines) + "\n"


def document(results: list[Result], options: dict[str, Any]) -> bytes:
    whole = {"machine": machine(), "options": options, "results": results}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
    }


def _cells(result: Result) -> tuple[str, ...]:
    spread = f"{min(result.ratios):.2f}–{max(result.ratios):.2f}" if result.ratios else _range(result)
    return (
        result.what,
        result.target or "–",
        shown(result.measured, result.unit),
        "–" if result.beside is None else shown(result.beside, result.unit),
        "–" if result.ratio is None else f"{result.ratio:.2f}",
        spread,
        VERDICTS[result.passed],
    )


def _range(result: Result) -> str:
    if len(result.samples) < 2:
        return "–"
    return f"{min(result.samples):.3g}–{max(result.samples):.3g} {result.unit}"
