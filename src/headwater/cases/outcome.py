"""One case on one host, and how it went: expected rows against those that came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from headwater.cases.differences import NOTHING, side_by_side, text_table
from headwater.cases.hosts import Host
from headwater.cases.merge import run_merge
from headwater.cases.stream import Case, CaseRow, run_stream
from headwater.errors import HeadwaterError
from headwater.reference.rows import identity

Runner = Callable[[Case, Host], tuple[list[CaseRow], list[CaseRow]]]
RUNNERS: dict[str, Runner] = {"stream": run_stream, "merge": run_merge}
#: What a case that makes no sense, or a host that cannot make sense of it, raises.
CASE_ERRORS = (HeadwaterError, LookupError, TypeError, ValueError, ArithmeticError, NotImplementedError)


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """How a case went; `text` is the table of expected against actual, or the reason."""

    id: str
    status: Literal["passed", "failed", "skipped"]
    text: str = ""

    @classmethod
    def of_error(cls, id: str, error: Exception) -> CaseOutcome:
        """It failed with this error."""
        return cls(id, "failed", f"{type(error).__name__}: {error}")


def run_case(case: Case, host: Host) -> CaseOutcome:
    """One case on one host.

    >>> from headwater.cases.hosts import HOSTS
    >>> window = {"type": "tumbling", "measure": "time", "size": 10}
    >>> row = {"watermark": 0, "window": 0, "start": 0, "end": 10, "value": 3}
    >>> case = {"id": "two-events", "kind": "stream", "windows": [window], "aggregation": "sum", "expected": [row],
    ...         "events": [[1, 1], [2, 2]], "watermarks": [{"after": 2, "ts": 10}]}
    >>> run_case(case, HOSTS["reference"]).status
    'passed'
    >>> print(run_case(case | {"events": [[1, 1], [2, 3]]}, HOSTS["reference"]).text)
    window  start  end  key  expected  actual
    0       0      10        3 @0      4 @0
    """
    if case["kind"] not in host.kinds:
        return CaseOutcome(case["id"], "skipped", f"this host runs no cases of kind {case['kind']!r}")
    try:
        expected, actual = RUNNERS[case["kind"]](case, host)
    except CASE_ERRORS as error:
        return CaseOutcome.of_error(case["id"], error)
    text = difference(expected, actual)
    return CaseOutcome(case["id"], "failed" if text else "passed", text)


def difference(expected: list[CaseRow], actual: list[CaseRow]) -> str:
    """The rows that differ, expected against actual, or "". A value after `@` is the watermark that brings it out."""
    lines = []
    for before, after in side_by_side(expected, actual, lambda row: (*row[:4], identity(row.key))):
        if sorted(map(_content, before)) != sorted(map(_content, after)):
            row = (before or after)[0]
            window = row.window if row.fn is None else f"{row.window} fn {row.fn}"
            key = "" if row.key is None else row.key
            lines.append(
                [window, row.start, row.end, key, *(", ".join(map(_text, side)) or NOTHING for side in (before, after))]
            )
    return text_table(["window", "start", "end", "key", "expected", "actual"], lines) if lines else ""


def _content(row: CaseRow) -> tuple[int, str]:
    return -1 if row.when is None else row.when, repr(row.value)


def _text(row: CaseRow) -> str:
    return f"{row.value}" if row.when is None else f"{row.value} @{row.when}"
