"""Run case files and say what failed: `headwater check`.

A file holds cases of several kinds. Those of the kinds below run; a host that cannot run one of them skips it. Others
are worked numbers for unit tests and are only named.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from headwater.cases.hosts import HOSTS
from headwater.cases.outcome import RUNNERS, CaseOutcome, run_case
from headwater.cases.stream import Case
from headwater.errors import FormatError

#: Runs the cases of one file.
FileRunner = Callable[[Sequence[Case]], Iterable[CaseOutcome]]


def check_files(paths: Iterable[Path | str], host: str, print: Callable[[str], object] = print) -> int:
    """Run every case of these files; prints failures and the totals, and returns the exit code: 0 if nothing failed."""
    totals: Counter[str] = Counter(passed=0, failed=0, skipped=0)
    others: Counter[str] = Counter()
    with _runner(host) as run:
        for path in paths:
            try:
                cases = read_cases(path)
            except FormatError as error:
                totals["failed"] += 1
                print(f"FAILED {path}\n{error}\n")
                continue
            others.update(case["kind"] for case in cases if case["kind"] not in RUNNERS)
            for outcome in run([case for case in cases if case["kind"] in RUNNERS]):
                totals[outcome.status] += 1
                if outcome.status == "failed":
                    print(f"FAILED {outcome.id}\n{outcome.text}\n")
                elif outcome.status == "skipped":
                    print(f"SKIPPED {outcome.id}: {outcome.text}")
    if others:
        print(f"not stream or merge, left to unit tests: {', '.join(f'{n} {kind}' for kind, n in others.items())}")
    print(", ".join(f"{count} {status}" for status, count in totals.items()))
    return 1 if totals["failed"] else 0


def _runner(host: str) -> AbstractContextManager[FileRunner]:
    """Case by case; on Spark all cases of a file at once, for a job costs more than a case."""
    if host in ("spark", "spark-stream"):
        from headwater.cases.spark_host import open_spark

        return open_spark(is_stream=host == "spark-stream")
    return nullcontext(lambda cases: (run_case(case, HOSTS[host]) for case in cases))


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
