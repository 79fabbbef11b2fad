"""Figures: a number with its unit and the bound it must reach, shown as a table or as JSON lines.

A benchmark only calls ``report.add`` and ``report.say``; whether a person reads a table or a program reads lines is decided here.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TextIO, TypeVar

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

Bench = TypeVar("Bench")


class Bound(NamedTuple):
    """What a figure must reach.

    >>> Bound(">=", 0.12).holds(0.2), Bound("<=", 60).holds(61)
    (True, False)
    """

    relation: Literal["<=", ">="]
    limit: float

    def holds(self, value: float) -> bool:
        """Whether ``value`` is on the right side; the limit itself is."""
        return value <= self.limit if self.relation == "<=" else value >= self.limit

    def __str__(self) -> str:
        return f"{self.relation} {self.limit:g}"


def at_least(limit: float) -> Bound:
    """The bound of a figure of which more is better."""
    return Bound(">=", limit)


def at_most(limit: float) -> Bound:
    """The bound of a figure of which less is better."""
    return Bound("<=", limit)


class Rate(NamedTuple):
    """Events per second, and which way of answering a question reached them."""

    way: str
    events_per_second: float

    def __str__(self) -> str:
        return f"{self.way} {self.events_per_second / 1e6:.3g} M/s"


class Figure(NamedTuple):
    """One measured number; ``note`` tells a reader how it came about.

    >>> Figure("scan_ratio_int", 0.4, "ratio", at_least(0.35)).verdict
    'pass'
    """

    name: str
    value: float
    unit: str
    bound: Bound | None = None
    note: str = ""

    @property
    def verdict(self) -> Literal["pass", "FAIL", ""]:
        """How the value stands to its bound; empty without one."""
        if self.bound is None:
            return ""
        return "pass" if self.bound.holds(self.value) else "FAIL"


@dataclass
class Report:
    """All figures of one run of a benchmark.

    With ``as_json`` each figure leaves as one line the moment it is known, so a run that is cut short has still said
    something; otherwise ``close`` prints one table. A quick run is a smoke run: its rows say so, and its bounds are
    shown without a verdict because they are only meant for the full one.

    >>> report = Report("engine", quick=True, as_json=True, out=sys.stdout)
    >>> report.add("scan_ratio_int", 0.41237, "ratio", at_least(0.35))
    {"bench": "engine", "figure": "scan_ratio_int", "value": 0.41237, "unit": "ratio", "quick": true}
    """

    bench: str
    quick: bool = False
    as_json: bool = False
    out: TextIO | None = None
    #: Where each step is told, with the time since the start; apart from ``out``, which holds nothing but figures.
    steps: TextIO | None = None
    figures: list[Figure] = field(default_factory=list)
    _start: float = field(default_factory=time.perf_counter)

    def say(self, text: str) -> None:
        """Show what is being measured now."""
        if self.steps is not None:
            print(f"[{time.perf_counter() - self._start:6.1f} s] {text}", file=self.steps, flush=True)

    def ask(self, questions: Iterable[Callable[[Bench], object]], bench: Bench) -> None:
        """Let each question measure its figures."""
        for question in questions:
            self.say(question.__name__.replace("_", " "))
            question(bench)

    def add(self, name: str, value: float, unit: str, bound: Bound | None = None, note: str = "") -> None:
        """Record a figure, and print it at once when the report is JSON."""
        figure = Figure(name, value, unit, bound, note)
        self.figures.append(figure)
        self.say(f"  {name}: {_readable(value)} {unit}{note and '; '}{note}")
        if self.as_json:
            print(self._line(figure), file=self.out or sys.stdout, flush=True)

    def add_ratio(self, name: str, bound: float, ours: Rate, theirs: Rate, note: str = "") -> None:
        """Our rate / theirs; unless told otherwise, the note has both."""
        ratio = ours.events_per_second / theirs.events_per_second
        self.add(name, ratio, "ratio", at_least(bound), note or f"{ours}, {theirs}")

    def add_rate(self, name: str, rate: Rate) -> None:
        """A rate by itself, for those who read no notes."""
        self.add(name, rate.events_per_second / 1e6, "M events/s")

    @property
    def failed(self) -> Sequence[Figure]:
        """The figures that miss their bound; none in a quick run."""
        return [] if self.quick else [figure for figure in self.figures if figure.verdict == "FAIL"]

    def close(self) -> None:
        """Print the table, unless every figure has left as JSON already."""
        if not self.as_json:
            console = Console(file=self.out)
            console.print(self._table())
            if self.failed:
                console.print(f"[red]{len(self.failed)} of {len(self.figures)} figures miss their bound[/red]")

    def _line(self, figure: Figure) -> str:
        row = {"bench": self.bench, "figure": figure.name, "value": _rounded(figure.value), "unit": figure.unit}
        return json.dumps(row | ({"quick": True} if self.quick else {}))

    def _table(self) -> Table:
        smoke = " --quick (a smoke run: bounds are for the full one)" if self.quick else ""
        right = Column("value", justify="right")
        title = f"headwater bench {self.bench}{smoke}"
        table = Table("figure", right, "unit", "must be", "", "how", title=title, title_justify="left")
        for figure in self.figures:
            verdict = "" if self.quick else figure.verdict
            shown = Text(verdict, {"pass": "green", "FAIL": "bold red", "": ""}[verdict])
            bound = "" if figure.bound is None else str(figure.bound)
            table.add_row(figure.name, _readable(figure.value), figure.unit, bound, shown, figure.note)
        return table


def _rounded(value: float) -> float | int:
    """Six significant digits are more than a benchmark is good for; whole numbers stay whole."""
    return int(value) if float(value).is_integer() else float(f"{value:.6g}")


def _readable(value: float) -> str:
    """A number for a person.

    >>> _readable(1234567), _readable(0.123456), _readable(42.0)
    ('1,234,567', '0.123', '42')
    """
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
