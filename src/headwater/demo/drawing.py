"""Windows drawn as SVG: a value over time, one line for each key, or the windows themselves as bars."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import pyarrow as pa

import headwater as hw
from headwater.demo.tables import readable

WIDTH, HEIGHT, LEFT, RIGHT, ABOVE, BELOW = 560, 170, 58, 8, 22, 20
#: Keys that are drawn, and windows of each.
KEYS_MAX, WINDOWS_MAX = 6, 240
#: So many windows are dots on their line.
DOTS_MAX = 30


def lines(query: hw.Query, rows: pa.Table) -> str:
    """The first aggregate of the last windows, over their ends; a line for each of the first keys."""
    end = "position_end" if query.window.measure == "count" else "window_end"
    alias = query.aggregates[0][0]
    found: dict[str, list[tuple[Any, Any]]] = {}
    for at, value, key in zip(rows[end].to_pylist(), rows[alias].to_pylist(), _labels(query, rows)):
        if value is not None:
            found.setdefault(key, []).append((at, value))
    drawn = {key: found[key][-WINDOWS_MAX:] for key in sorted(found)[:KEYS_MAX]}
    if not drawn:
        return _svg(_text(WIDTH / 2, HEIGHT / 2, "no window yet", "middle"), query.name)
    plot = _Plot.around([point for points in drawn.values() for point in points], end)
    inside = [plot.axes(), "" if list(drawn) == [""] else _legend(list(drawn))]
    for number, (key, points) in enumerate(drawn.items()):
        places = " ".join(f"{plot.x(at):.1f},{plot.y(value):.1f}" for at, value in points)
        inside.append(f'<polyline class="line s{number}" points="{places}"><title>{escape(key)}</title></polyline>')
        # Few windows are seen as such; a single one is no line at all.
        dots = points if len(points) <= DOTS_MAX else ()
        inside += [
            f'<circle class="dot s{number}" cx="{plot.x(at):.1f}" cy="{plot.y(v):.1f}" r="2.2"/>' for at, v in dots
        ]
    return _svg("".join(inside), f"{alias} of the last windows of {query.name}")


def bars(query: hw.Query, rows: pa.Table) -> str:
    """The last windows of the first keys, from their start to their end."""
    keys = _labels(query, rows)
    names = sorted(set(keys))[:KEYS_MAX]
    bounds = zip(rows["window_start"].to_pylist(), rows["window_end"].to_pylist(), keys)
    spans = [(start, end, names.index(key)) for start, end, key in bounds if key in names][-WINDOWS_MAX:]
    if not spans:
        return _svg(_text(WIDTH / 2, HEIGHT / 2, "no window yet", "middle"), query.name)
    plot = _Plot("window_end", min(start for start, _, _ in spans), max(end for _, end, _ in spans))
    step = (HEIGHT - BELOW) / len(names)
    inside = [plot.below(), *(_text(0, step * (row + 0.5) + 3.5, name) for row, name in enumerate(names))]
    for start, end, row in spans:
        # The shortest is seen too.
        right = max(plot.x(end), plot.x(start) + 1)
        inside.append(
            _line(f"bar s{row}", plot.x(start), right, step * (row + 0.5), f"{_clock(start)} to {_clock(end)}")
        )
    return _svg("".join(inside), f"the last windows of {query.name}")


class _Plot:
    """Where times and values lie in a picture; ``axis`` is the column of the axis below."""

    def __init__(self, axis: str, first: float, last: float, low: float = 0.0, high: float = 1.0) -> None:
        self._axis, self._first, self._span, self._has_length = axis, first, (last - first) or 1, last > first
        self._low, self._high, self._height = low, high, (high - low) or 1

    @classmethod
    def around(cls, points: Sequence[tuple[Any, Any]], axis: str) -> _Plot:
        times, values = zip(*points)
        return cls(axis, min(times), max(times), float(min(values)), float(max(values)))

    def x(self, at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - self._first) / self._span

    def y(self, value: float) -> float:
        return HEIGHT - BELOW - (HEIGHT - BELOW - ABOVE) * (float(value) - self._low) / self._height

    def axes(self) -> str:
        """Three lines of values, and the axis below."""
        # Where all values are the same, there is one line.
        values = sorted({self._low, (self._low + self._high) / 2, self._high})
        grid = [_line("grid", LEFT, WIDTH - RIGHT, self.y(value)) for value in values]
        texts = [_text(LEFT - 8, self.y(value) + 3.5, f"{value:,.4g}", "end") for value in values]
        return "".join([*grid, *texts, self.below()])

    def below(self) -> str:
        marks = ((0.0, "start"), (0.5, "middle"), (1.0, "end")) if self._has_length else ((0.0, "start"),)
        times = ((self._first + self._span * share, anchor) for share, anchor in marks)
        return "".join(_text(self.x(at), HEIGHT - 4, self._mark(at), anchor) for at, anchor in times)

    def _mark(self, at: float) -> str:
        return f"{at:,.0f}" if self._axis == "position_end" else _clock(at)


def _labels(query: hw.Query, rows: pa.Table) -> list[str]:
    """The keys of each row as one text."""
    columns = [rows[key].to_pylist() for key in query.keys]
    return [" · ".join(map(str, row)) for row in zip(*columns)] if columns else [""] * len(rows)


def _clock(at: float) -> str:
    return readable("window_end", int(at)).partition(".")[0]


def _legend(names: list[str]) -> str:
    room = (WIDTH - LEFT) / len(names)
    places = [LEFT + room * number for number in range(len(names))]
    marks = [_line(f"line s{number}", at, at + 12, 8) for number, at in enumerate(places)]
    return "".join([*marks, *(_text(at + 17, 11.5, name) for at, name in zip(places, names))])


def _line(kind: str, left: float, right: float, y: float, title: str = "") -> str:
    said = f"<title>{escape(title)}</title>" if title else ""
    return f'<line class="{kind}" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}">{said}</line>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(inside: str, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{inside}</svg>'
