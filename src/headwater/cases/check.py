"""Run case files and say what failed: `headwater check`.

A file holds cases of several kinds. Those of the kinds below run; a host that cannot run one of them skips it. Others
are worked numbers for unit tests and are only named.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headwater.cases.differences import NOTHING, side_by_side, text_table
from headwater.cases.hosts import HOSTS, Host
from headwater.cases.merge import run_merge
from headwater.cases.stream import Case, CaseRow, run_stream
from headwater.errors import FormatError, HeadwaterError
from headwater.reference import identity

Runner = Callable[[Case, Host], tuple[list[CaseRow], list[CaseRow]]]
RUNNERS: dict[str, Runner] = {"stream": run_stream, "merge": run_merge}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case went; `text` is the table of expected against actual, or the reason."""

    id: str
    status: Literal["passed", "failed", "skipped"]
    text: str = ""


def check_files(paths: Iterable[Path | str], host: str, print: Callable[[str], object] = print) -> int:
    """Run every case of these files; prints failures and the totals, and returns the exit code: 0 if nothing failed."""
    totals: Counter[str] = Counter(passed=0, failed=0, skipped=0)
    others: Counter[str] = Counter()
    for path in paths:
        try:
            cases = read_cases(path)
        except FormatError as error:
            totals["failed"] += 1
            print(f"FAILED {path}\n{error}\n")
            continue
        others.update(case["kind"] for case in cases if case["kind"] not in RUNNERS)
        for case in cases:
            if case["kind"] not in RUNNERS:
                continue
            outcome = run_case(case, HOSTS[host])
            totals[outcome.status] += 1
            if outcome.status == "failed":
                print(f"FAILED {outcome.id}\n{outcome.text}\n")
            elif outcome.status == "skipped":
                print(f"SKIPPED {outcome.id}: {outcome.text}")
    if others:
        print(f"not stream or merge, left to unit tests: {', '.join(f'{n} {kind}' for kind, n in others.items())}")
    print(", ".join(f"{count} {status}" for status, count in totals.items()))
    return 1 if totals["failed"] else 0


def read_cases(path: Path | str) -> list[Case]:
    """The cases of a file."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read as JSON: {error}") from error
    cases = content.get("cases") if isinstance(content, dict) else None
    if not isinstance(cases, list) or not all(isinstance(case, dict) and {"id", "kind"} <= set(case) for case in cases):
        raise FormatError(f"{path} holds no cases: write {{'cases': [{{'id': ..., 'kind': ...}}]}}")
    return cases


def run_case(case: Case, host: Host) -> Outcome:
    """One case on one host.

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
        return Outcome(case["id"], "skipped", f"this host runs no cases of kind {case['kind']!r}")
    try:
        expected, actual = RUNNERS[case["kind"]](case, host)
    except (HeadwaterError, LookupError, TypeError, ValueError, ArithmeticError, NotImplementedError) as error:
        return Outcome(case["id"], "failed", f"{type(error).__name__}: {error}")
    text = difference(expected, actual)
    return Outcome(case["id"], "failed" if text else "passed", text)


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
