"""The cases that ship with the tests: where they are, and those that every host runs."""

from pathlib import Path

from headwater.cases.check import RUNNERS, read_cases

FOLDER = Path(__file__).with_name("cases")
#: By name, so that a file that is missing is an error.
FILES = [FOLDER / f"{name}.json" for name in ("boundary", "disco", "holon", "papers", "scotty")]
CASES = [case for path in FILES for case in read_cases(path) if case["kind"] in RUNNERS]

#: A case whose expected rows are wrong: one comes too late, one not at all, and one is missing.
WRONG_CASE = {
    "id": "wrong",
    "kind": "stream",
    "windows": [{"type": "tumbling", "measure": "time", "size": 10}],
    "aggregation": "sum",
    "events": [[1, 1], [2, 2], [11, 4]],
    "watermarks": [{"after": 2, "ts": 10}, {"after": 3, "ts": 20}],
    "complete": True,
    "expected": [
        {"watermark": 1, "window": 0, "start": 0, "end": 10, "value": 3},
        {"watermark": 1, "window": 0, "start": 20, "end": 30, "value": 9},
    ],
}
