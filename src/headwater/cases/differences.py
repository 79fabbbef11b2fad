"""Expected against actual, as a small table: what a failing check or test shows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from headwater.reference.rows import ResultRow, identity

_T = TypeVar("_T")
NOTHING = "-"


def text_table(headers: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Columns side by side, each as wide as its widest cell.

    >>> print(text_table(["window", "value"], [[0, "a"], [10, "bc"]]))
    window  value
    0       a
    10      bc
    """
    cells = [list(headers), *([str(cell) for cell in line] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def side_by_side(
    expected: Iterable[_T], actual: Iterable[_T], key: Callable[[_T], Hashable]
) -> list[tuple[list[_T], list[_T]]]:
    """What stands under one key on either side, keys in order of their first appearance."""
    pairs: dict[Hashable, tuple[list[_T], list[_T]]] = {}
    for side, rows in enumerate((expected, actual)):
        for row in rows:
            pairs.setdefault(key(row), ([], []))[side].append(row)
    return list(pairs.values())


def explain_difference(expected: Sequence[ResultRow], actual: Sequence[ResultRow]) -> str:
    """The rows that are not the same on both sides, or "" if all are.

    Of an equal row only the bits matter, not the order; values compare exactly, NaN equals itself.

    >>> row = ResultRow("load", 0, 10, ("a",), {"sum": 3}, 2)
    >>> print(explain_difference([row], [row._replace(values={"sum": 4})]))
    query  start  end  key     node  expected                  actual
    load   0      10   ('a',)        sum=3 events=2 revision=0  sum=4 events=2 revision=0
    """
    lines = []
    for before, after in side_by_side(expected, actual, _place):
        if sorted(map(_content, before), key=repr) != sorted(map(_content, after), key=repr):
            row = (before or after)[0]
            texts = (" | ".join(map(content_text, side)) or NOTHING for side in (before, after))
            lines.append([row.query, row.start, row.end, row.key, row.node, *texts])
    return text_table(["query", "start", "end", "key", "node", "expected", "actual"], lines) if lines else ""


def content_text(row: ResultRow) -> str:
    """What a row says about its window, on one line.

    >>> content_text(ResultRow("load", 0, 10, (), {"sum": 3}, 2, 1, ((0, 8, 0),)))
    'sum=3 events=2 revision=1 replaces=0..8#0'
    """
    values = [f"{alias}={value!r}" for alias, value in row.values.items()]
    replaced = [f"{start}..{end}#{revision}" for start, end, revision in row.replaces or ()]
    parts = [*values, f"events={row.event_count}", f"revision={row.revision}"]
    return " ".join(parts + ([f"replaces={','.join(replaced)}"] if replaced else []))


def _place(row: ResultRow) -> Hashable:
    return row.query, row.start, row.end, identity(row.key), row.node


def _content(row: ResultRow) -> Any:
    return identity(row.values), row.event_count, row.revision, row.replaces
