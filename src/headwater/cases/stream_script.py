"""A case as a part of a stream that plays many: what its sources hold, and how far they are shown turn by turn.

The cases of a stream follow each other, each in a stretch of event time of its own, above the watermarks of those before. Their
queries see only the events of their case, which the column ``case`` names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any

import pyarrow as pa

from headwater.cases.spark_host import questions
from headwater.cases.stream import Case, history_of, settings_of
from headwater.cases.stream_input import CaseSource, Item
from headwater.language.expressions import col
from headwater.language.query import Query, query
from headwater.language.windows import CountWindow, tumbling
from headwater.reference.history import Added, Advanced, Arrived, Joined, Step
from headwater.reference.rows import ResultRow

#: Lengths that a window of a case may have.
LENGTHS = ("size", "slide", "gap")


@dataclass(frozen=True)
class Turn:
    """What happens next: sources show more, or a query is added. ``index``: of the step of the history that shows its rows."""

    index: int
    ends: Mapping[str, int]
    added: Query | None = None
    at: int = 0


@dataclass
class Script:
    """One case in the stream. ``shift``: how much later it happens there."""

    case: Case
    number: int
    shift: int
    column: str
    queries: list[Query] = field(default_factory=list)
    sources: dict[str, CaseSource] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    #: All queries, by the names they have in the stream.
    named: dict[str, Query] = field(default_factory=dict)
    #: Of each source the offsets that its items have in the case.
    offsets: dict[str, list[int]] = field(default_factory=dict)
    #: Keys are text in the stream.
    keys: dict[str | None, Any] = field(default_factory=dict)

    # --- there ---

    def own(self, asked: Query, tag: str) -> Query:
        """A query as it is asked of the stream. Its one aggregate has an alias of its own: types differ from case to case."""
        ((_, aggregation),) = asked.aggregates
        name = f"{tag}:{asked.name}"
        aggregates: dict[str, Any] = {f"value {name}": replace(aggregation, column=self.column)}
        options: dict[str, Any] = {"keys": asked.keys, "lateness": asked.lateness}
        found = query(name, asked.window, where=col("case") == tag, **options, **aggregates)
        self.named[name] = found
        return found

    def row(self, row: Mapping[str, Any], tag: str) -> dict[str, Any]:
        """An event as it is in the stream."""
        key = None if row.get("key") is None else str(row["key"])
        self.keys[key] = row.get("key")
        return {"time": row["time"] + self.shift, "case": tag, "key": key, self.column: row["value"]}

    # --- and back ---

    def answers(self, table: pa.Table) -> Iterator[ResultRow]:
        """The rows of this case among those of the stream, in its own words."""
        for row in table.to_pylist():
            asked = self.named.get(row["query"])
            if asked is not None:
                key = tuple(self.keys[row[name]] for name in asked.keys)
                ((alias, _),) = asked.aggregates
                if isinstance(asked.window, CountWindow):
                    bounds = row["position_start"], row["position_end"]
                else:
                    bounds = row["window_start"] - self.shift, row["window_end"] - self.shift
                name = asked.name.partition(":")[2]
                yield ResultRow(name, *bounds, key, {"value": row[alias]}, row["event_count"], row["revision"])

    def place(self, name: str, source: str, offset: int) -> tuple[str, str, int]:
        """Query, source and offset of an event that was put aside for a query of this case, in its own words."""
        return name.partition(":")[2], source.partition("/")[2], self.offsets[source][offset]


def script_of(case: Case, number: int, floor: int, alignment: int) -> tuple[Script, int]:
    """A case in the stream above the time ``floor``, and the time above which the next may be."""
    low, high = reach(case)
    shift = -(-(floor - low) // alignment) * alignment
    if case["kind"] == "merge":
        return _merge_script(case, number, shift), shift + high
    return _stream_script(case, number, shift), shift + high


def alignment_of(case: Case) -> int:
    """The unit by which a case can be moved in time without changing its windows."""
    lengths = [window[name] for window in case["windows"] for name in LENGTHS if name in window]
    return lcm(*(length for length in lengths if length > 0), 1)


def reach(case: Case) -> tuple[int, int]:
    """The times between which all events and windows of a case lie."""
    if case["kind"] == "merge":
        return -1, 2
    lengths = [window[name] for window in case["windows"] for name in LENGTHS if name in window]
    times = [event[0] for event in case["events"]] + [watermark["ts"] for watermark in case["watermarks"]]
    for window in case["windows"]:
        times += [window[name] for name in ("active_from", "start") if name in window]
    around = 2 * max([1, *lengths]) + case.get("allowed_lateness", 0)
    return min([0, *times]) - around, max([0, *times]) + around


# --- the two kinds ---


def _stream_script(case: Case, number: int, shift: int) -> Script:
    values = pa.array([event[1] for event in case["events"]])
    script = Script(case, number, shift, _column(values.type))
    moved = {**case, "windows": [_moved(window, script) for window in case["windows"]]}
    tag = str(number)
    script.queries = [script.own(asked, tag) for asked in settings_of(moved).queries]
    _tell(script, tag, list(history_of(moved)))
    return script


def _merge_script(case: Case, number: int, shift: int) -> Script:
    """Each part of a question is a source, and the question a window over all of them."""
    asked = questions(case)
    values = pa.array([value for _, parts in asked for part in parts for value in part])
    script = Script(case, number, shift, _column(values.type))
    count = max((len(parts) for _, parts in asked), default=0)
    items: dict[str, list[Item]] = {str(part): [] for part in range(count)}
    for place, (aggregation, parts) in enumerate(asked):
        tag = f"{number}.{place}"
        script.queries.append(script.own(query(str(place), tumbling(1), value=aggregation), tag))
        for part, some in enumerate(parts):
            items[str(part)] += [script.row({"time": 0, "value": value}, tag) for value in some]
    script.sources = {f"{number}/{part}": CaseSource(part, [*some, 1 + shift]) for part, some in items.items()}
    script.turns = [Turn(0, {name: len(source.items) for name, source in script.sources.items()})]
    return script


def _column(type_: pa.DataType) -> str:
    return f"value {pa.int64() if pa.types.is_null(type_) else type_}"


def _moved(window: Case, script: Script) -> dict[str, Any]:
    """A window of the case as it is in the stream: later, and with markers in the columns that are there."""
    moved = dict(window)
    if "start" in window:
        moved["start"] = window["start"] + script.shift
    if "active_from" in window:
        moved["active_from"] = window["active_from"] + script.shift
    if window["type"] == "punctuation":
        fields = window.get("match", {"value": window.get("punctuation")})
        names = {"value": script.column}
        moved["match"] = {names.get(n, n): str(wanted) if n == "key" else wanted for n, wanted in fields.items()}
    return moved


def _tell(script: Script, tag: str, history: Sequence[Step]) -> None:
    """The history of a case, turn by turn."""
    homes = {step.source: step.node for step in history if isinstance(step, Joined)}
    names = {source: f"{tag}/{source}" for source in homes}
    items: dict[str, list[Item]] = {name: [] for name in names.values()}
    offsets: dict[str, list[int]] = {name: [] for name in names.values()}

    def turn(index: int, **added: Any) -> None:
        ends = {name: len(some) for name, some in items.items()}
        if added or not script.turns or ends != script.turns[-1].ends:
            script.turns.append(Turn(index, ends, **added))

    for index, step in enumerate(history):
        match step:
            case Joined():
                pass
            case Arrived(source, offset, row):
                items[names[source]].append(script.row(row, tag))
                offsets[names[source]].append(offset)
            case Advanced(None, watermark):
                for name, some in items.items():
                    some.append(watermark + script.shift)
                    offsets[name].append(-1)
                turn(index)
            case Added(asked, at):
                turn(index)  # what came before it
                turn(index, added=script.own(asked, tag), at=at)
            case other:
                raise NotImplementedError(f"a stream of cases cannot tell {other}")
    turn(len(history))
    script.offsets = offsets
    script.sources = {name: CaseSource(homes[source] or source, items[name]) for source, name in names.items()}
