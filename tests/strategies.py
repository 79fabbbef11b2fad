"""Hypothesis generators for streams: queries of every kind, events of several sources, and what happens to them.

Numbers are few and small, so that events meet windows at their edges, keys repeat and watermarks cut right through. A
new feature that is drawn here joins every property at once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from headwater.language import aggregations as agg
from headwater.language import windows as win
from headwater.language.aggregations import Aggregation
from headwater.language.expressions import Expr, col
from headwater.language.query import CONTEXT_SCOPES, Query, query
from headwater.language.times import TIME_MAX
from headwater.language.user_code import Aggregate, Operator, aggregate_of
from headwater.language.windows import Window
from headwater.reference.history import (
    UNREAD,
    Added,
    Advanced,
    Arrived,
    Emit,
    Flushed,
    Idle,
    Joined,
    Removed,
    Returned,
    Step,
    StreamSettings,
)
from headwater.simulator.workloads.queries import ANY, NUMBERS, ORDERED, cut_at_stops, cut_before_stops
from headwater.simulator.workloads.queries import SCHEMA as SIMULATED

Drawn = TypeVar("Drawn")

#: The columns of events: those of the simulator, and keys of every other kind.
SCHEMA = pa.schema([*SIMULATED, ("day", pa.date32()), ("at", pa.timestamp("us", "Asia/Tokyo")), ("b", pa.binary())])
DAYS = (date(1969, 12, 31), date(2024, 2, 29), None)
MOMENTS = (datetime(2024, 2, 29, 23, 59, 59, 999_999, UTC), datetime(1969, 12, 31, tzinfo=UTC), None)
BYTES = (b"", b"\xff\x00", None)
KEYS: st.SearchStrategy[tuple[str, ...]] = st.sampled_from(
    [(), (), ("k",), ("k",), ("g", "k"), ("g", "k"), ("day",), ("at", "g"), ("d",), ("b", "day")]
)

INTEGERS = st.integers(-3, 9) | st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63), 10**15 + 1])
FLOATS = st.sampled_from(
    [0.0, -0.0, 0.1, 0.2, 0.3, 1.5, -2.25, 1e16, -1e16, 1e200, 5e-324, math.inf, -math.inf, math.nan]
)
DECIMALS = st.integers(-(10**4), 10**4).map(lambda cents: Decimal(cents).scaleb(-2))
WORDS = st.sampled_from(["", "a", "b", "ab", "é", "\U0001f600"])
#: What no event may have as its time.
BAD_TIMES = st.sampled_from([None, TIME_MAX + 1, -TIME_MAX - 1, 2**63 - 1])


def squares(values: Any) -> int:
    return sum(int(value) ** 2 for value in values)


#: Users' own aggregates: one whose order does not matter, one whose order does, and two that share an operator.
SQUARES = aggregate_of("squares", squares, lambda a, b: a + b, float, 0)
TRAIL = aggregate_of(
    "trail", "".join, lambda a, b: a + b, lambda text: text, "", commutative=False, result_type=pa.string()
)
LENGTHS = Operator("lengths", lambda words: sum(map(len, words)), lambda a, b: a + b, 0)
NUMBER = Operator("number", len, lambda a, b: a + b, 0)
MEAN_LENGTH = Aggregate("mean_length", (LENGTHS, NUMBER), lambda total, n: total / n if n else None)
TOTAL_LENGTH = Aggregate("total_length", (LENGTHS,), lambda total: total, pa.int64())


sizes = st.integers(1, 25)
limits = st.none() | st.integers(1, 30)
markers: st.SearchStrategy[Expr] = st.sampled_from(
    [col("mark") == "start", col("mark") == "stop", col("mark").isin(["start", "stop"]), col("i") > 5]
)
conditions: st.SearchStrategy[Expr] = st.sampled_from(
    [
        col("i") > 0,
        col("x") <= 1.5,
        col("s").is_not_null(),
        (col("s") == "a") | (col("g") == 1),
        ~col("mark").isin(["stop"]),
        col("x").between(0, 1),
        col("s").matches("a.*"),
    ]
)

WINDOWS: dict[str, st.SearchStrategy[Window]] = {
    "tumbling": st.builds(win.tumbling, sizes, st.integers(-7, 7)),
    "sliding": st.builds(win.sliding, sizes, st.integers(1, 15), st.integers(-7, 7)),
    "band": st.builds(win.band, st.integers(-10, 60), sizes),
    "session": st.builds(win.session, st.integers(1, 12), limits),
    "punctuated": st.builds(win.punctuated, markers, st.booleans(), limits),
    "between": st.builds(win.between, markers, markers, limits),
    "custom": st.builds(
        win.custom, st.sampled_from([cut_at_stops, cut_before_stops]), st.sampled_from([0, 0, 5]), st.just(["mark"])
    ),
    "count_tumbling": st.builds(win.count_tumbling, st.integers(1, 6), st.sampled_from(["all", "key"])),
    "count_sliding": st.builds(
        win.count_sliding, st.integers(1, 6), st.integers(1, 6), st.sampled_from(["all", "key"])
    ),
}


#: The longest durations there may be, and windows made of them.
LONG = st.sampled_from([2**61, 2**61 - 1, 2**60, 2**59 + 1])
LONG_WINDOWS: dict[str, st.SearchStrategy[Window]] = {
    "tumbling": st.builds(win.tumbling, LONG, st.integers(-7, 7)),
    "sliding": st.builds(lambda size, parts: win.sliding(size, size // parts), LONG, st.integers(1, 3)),
    "band": st.builds(win.band, st.sampled_from([-TIME_MAX, -5, TIME_MAX - 5]), LONG),
    "session": st.builds(win.session, LONG, st.none() | LONG),
    "punctuated": st.builds(win.punctuated, markers, st.booleans(), LONG),
    "between": st.builds(win.between, markers, markers, LONG),
}


def drawn(strategy: st.SearchStrategy[Drawn], count: int = 1) -> list[Drawn]:
    """Some examples, always the same: for what takes too long to be tried on many, or to be made smaller when it fails.

    Hypothesis begins with the simplest of all, which says little: these come some way behind it.
    """
    found: list[Drawn] = []

    @seed(1)
    @settings(max_examples=20 + count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def keep(example: Drawn) -> None:
        found.append(example)

    keep()
    return found[-count:]


def windows(kinds: Sequence[str] = tuple(WINDOWS), durations: str = "short") -> st.SearchStrategy[Window]:
    """A window of one of these kinds."""
    return st.sampled_from(list(kinds)).flatmap((WINDOWS if durations == "short" else LONG_WINDOWS).__getitem__)


def _of(make: Callable[[str], Aggregation], columns: Sequence[str]) -> st.SearchStrategy[Aggregation]:
    return st.sampled_from(list(columns)).map(make)


def _top(names: Sequence[str], k: int, ties: bool, more: int) -> Aggregation:
    """The best by some column, with some others."""
    return agg.top(names[0], k, ties=ties, keep=names[1 : 1 + more])


_METHODS = st.sampled_from(["linear", "lower", "upper", "nearest"])
_FRACTIONS = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])

#: Aggregates whose bits are guaranteed.
EXACT: dict[str, st.SearchStrategy[Aggregation]] = {
    "count": st.just(agg.count()) | _of(agg.count, ANY),
    "sum": _of(agg.sum, NUMBERS),
    "avg": _of(agg.avg, NUMBERS),
    "min": _of(agg.min, ORDERED),
    "max": _of(agg.max, ORDERED),
    "range": _of(agg.value_range, NUMBERS),
    "quantile": st.builds(agg.quantile, st.sampled_from(NUMBERS), _FRACTIONS, _METHODS),
    "mode": _of(agg.mode, ORDERED),
    "count_distinct": _of(agg.count_distinct, ANY),
    "first": _of(agg.first, ANY),
    "last": _of(agg.last, ANY),
    "collect": _of(agg.collect, ANY),
    "distinct": _of(agg.distinct, ORDERED),
    "top": st.builds(_top, st.permutations(ANY), st.integers(1, 4), st.booleans(), st.integers(0, 2)),
    "max_by": st.builds(agg.max_by, st.sampled_from(ANY), st.sampled_from(ORDERED)),
    "min_by": st.builds(agg.min_by, st.sampled_from(ANY), st.sampled_from(ORDERED)),
    "rows": st.builds(lambda names, count: agg.rows(names[:count]), st.permutations(ANY), st.integers(1, 3)),
    "variance": _of(agg.variance, NUMBERS),
    "stddev": _of(agg.stddev, NUMBERS),
    "user": st.sampled_from(
        [agg.apply(SQUARES, "i"), agg.apply(TRAIL, "s"), agg.apply(MEAN_LENGTH, "s"), agg.apply(TOTAL_LENGTH, "s")]
    ),
}
#: Sketches: the same bits in any order and grouping, but not the exact answer.
SKETCHES: dict[str, st.SearchStrategy[Aggregation]] = {
    "approx_distinct": st.builds(agg.approx_distinct, st.sampled_from(ANY), st.just(8)),
    "approx_quantile": st.builds(agg.approx_quantile, st.just("x"), _FRACTIONS, st.just(0.02)),
}
#: Within 1e-12 only, for floats.
CLOSE: dict[str, st.SearchStrategy[Aggregation]] = {
    "product": _of(agg.product, ("i", "x")),
    "geometric_mean": _of(agg.geometric_mean, ("i", "x")),
}


def aggregations(kinds: dict[str, st.SearchStrategy[Aggregation]]) -> st.SearchStrategy[Aggregation]:
    """An aggregate of any of these kinds."""
    return st.sampled_from(sorted(kinds)).flatmap(kinds.__getitem__)


@st.composite
def queries(
    draw: st.DrawFn,
    name: str = "q",
    kinds: Sequence[str] = tuple(WINDOWS),
    aggregates: dict[str, st.SearchStrategy[Aggregation]] = EXACT,
    scopes: Sequence[str] = ("global", "global", "node", "ordinal", "matched", "overlap"),
    keys: st.SearchStrategy[tuple[str, ...]] = KEYS,
    where: st.SearchStrategy[Expr | None] = st.none() | conditions,
    durations: str = "short",
) -> Query:
    """A query with every option, in ticks; ``durations`` are short or, for kinds of windows that have any, long."""
    window = draw(windows(kinds, durations))
    allowed = [scope for scope in scopes if window.is_context or scope not in CONTEXT_SCOPES]
    chosen = draw(st.lists(aggregations(aggregates), min_size=1, max_size=3))
    asked = query(
        name,
        window,
        keys=draw(keys),
        where=draw(where),
        distinct=draw(st.sampled_from([None, None, None, "id"])),
        lateness=draw(st.sampled_from([0, 0, 5, 30] if durations == "short" else [0, 5, 2**61])),
        emit_empty=not window.is_context and draw(st.booleans()),
        scope=draw(st.sampled_from(allowed)),
        **{f"v{number}": aggregation for number, aggregation in enumerate(chosen)},
    )
    # As a door does it that is told a column.
    return asked if asked.scope == "global" else replace(asked, home=draw(st.sampled_from([None, None, "k", "g"])))


def alike(
    kinds: Sequence[str] = tuple(WINDOWS), scopes: Sequence[str] = ("global", "node")
) -> st.SearchStrategy[st.SearchStrategy[Query]]:
    """Queries that share keys and condition, and so share slices: a strategy for them, itself drawn."""
    shared = st.tuples(KEYS, st.none() | conditions)
    return shared.map(
        lambda chosen: queries(kinds=kinds, scopes=scopes, keys=st.just(chosen[0]), where=st.just(chosen[1]))
    )


@st.composite
def rows(draw: st.DrawFn, base: int = 0, bad_times: bool = True, wrong_types: bool = False) -> dict[str, Any]:
    """An event's row, at a time at or soon after `base`; now and then its time is none (or a value has a wrong type)."""
    time: Any = base + draw(st.integers(0, 20))
    if bad_times and draw(st.integers(0, 29)) == 29:
        time = draw(BAD_TIMES)
    row = {
        "time": time,
        "k": draw(st.sampled_from(["u", "v", "é", None])),
        "g": draw(st.sampled_from([1, 2, None])),
        "i": draw(st.none() | INTEGERS),
        "x": draw(st.none() | FLOATS),
        "d": draw(st.none() | DECIMALS),
        "s": draw(st.none() | WORDS),
        "id": draw(st.sampled_from([None, 1, 2, 3, 4, 5])),
        "mark": draw(st.sampled_from(["start", "stop", "none", "none", None])),
        "day": draw(st.sampled_from(DAYS)),
        "at": draw(st.sampled_from(MOMENTS)),
        "b": draw(st.sampled_from(BYTES)),
    }
    return draw(wrongly_typed(row)) if wrong_types and draw(st.integers(0, 14)) == 14 else row


def wrongly_typed(row: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The row with a value of a wrong type in one of its columns."""
    columns = st.sampled_from([name for name in row if name != "time"])
    return columns.map(lambda name: row | {name: None, UNREAD + name: "?"})


@dataclass
class Scenario:
    """A stream from its first step to its last."""

    settings: StreamSettings
    history: list[Step]


@dataclass
class _Script:
    """What a history must keep to while it is drawn: offsets count up, an idle source returns before it speaks."""

    draw: st.DrawFn
    query_strategy: st.SearchStrategy[Query]
    bad_times: bool
    bases: st.SearchStrategy[int]
    wrong_types: bool
    steps: list[Step] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    idle: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    largest: int = -100
    homes: dict[str, str] = field(default_factory=dict)

    def source(self) -> str:
        return self.draw(st.sampled_from(["a", "b", "é"]))

    def home(self, source: str) -> str:
        return self.homes.setdefault(source, self.draw(st.sampled_from(["north", "south"])))

    def speak(self, source: str) -> None:
        if source in self.idle:
            self.idle.discard(source)
            self.steps.append(Returned(source))

    def arrive(self) -> None:
        source, base = self.source(), self.draw(self.bases)
        node = self.home(source)
        self.speak(source)
        for row in self.draw(st.lists(rows(base, self.bad_times, self.wrong_types), min_size=1, max_size=6)):
            offset = self.offsets.get(source, 0)
            self.offsets[source] = offset + 1
            self.steps.append(Arrived(source, offset, row, node))
            if row["time"] is not None and abs(row["time"]) <= TIME_MAX:
                self.largest = max(self.largest, row["time"])
        self.steps.append(Emit())

    def advance(self) -> None:
        source = self.draw(st.none() | st.sampled_from(["a", "b", "é"]))
        if source is not None:
            self.speak(source)
        self.steps.append(Advanced(source, self.draw(self.bases) + self.draw(st.integers(0, 20))))

    def decide(self) -> None:
        source = self.source()
        if source in self.idle:
            self.speak(source)
        elif self.draw(st.booleans()):
            self.idle.add(source)
            self.steps.append(Idle(source))
        else:
            self.steps.append(Joined(source, self.home(source)))

    def change_queries(self) -> None:
        if self.names and self.draw(st.booleans()):
            name = self.names.pop(self.draw(st.integers(0, len(self.names) - 1)))
            self.steps.append(Removed(name, self.draw(st.booleans())))
        else:
            added = _renamed(self.draw(self.query_strategy), f"added{len(self.steps)}")
            self.names.append(added.name)
            self.steps.append(Added(added, self.largest + 1 + self.draw(st.integers(0, 5))))


def _renamed(given: Query, name: str) -> Query:
    # One type per result column: the aliases of every query are its own.
    aggregates = {f"{name}_{alias}": aggregation for alias, aggregation in given.aggregates}
    return Query(name, given.window, tuple(aggregates.items()), *(getattr(given, each) for each in given.__slots__[3:]))


@st.composite
def scenarios(
    draw: st.DrawFn,
    query_strategy: st.SearchStrategy[Query] | None = None,
    query_count_max: int = 3,
    steps_max: int = 12,
    changes_queries: bool = True,
    bad_times: bool = True,
    bases: st.SearchStrategy[int] = st.integers(-10, 60),
    wrong_types: bool = True,
) -> Scenario:
    """Queries and a history: batches, watermarks, decisions about sources, added and removed queries, perhaps the end.

    Events and watermarks lie soon after one of the ``bases``.
    """
    drawn = query_strategy if query_strategy is not None else queries()
    asked = draw(st.lists(drawn, min_size=1, max_size=query_count_max))
    asked = [_renamed(each, f"q{number}") for number, each in enumerate(asked)]
    script = _Script(draw, drawn, bad_times, bases, wrong_types, names=[each.name for each in asked])
    kinds = [script.arrive, script.arrive, script.arrive, script.advance, script.advance, script.decide]
    if changes_queries:
        kinds.append(script.change_queries)
    for _ in range(draw(st.integers(1, steps_max))):
        draw(st.sampled_from(kinds))()
    if draw(st.booleans()):
        script.steps.append(Flushed())
    return Scenario(StreamSettings(tuple(asked), disorder=draw(st.sampled_from([None, None, 0, 5, 20]))), script.steps)


#: Times at both ends of the domain, and in the middle.
FAR_APART = st.sampled_from([-TIME_MAX, -10, TIME_MAX - 20])


@st.composite
def bulk_scenarios(draw: st.DrawFn, query_strategy: st.SearchStrategy[Query] | None = None) -> Scenario:
    """Batches of hundreds of events, mostly in order: what a handful of events never reaches."""
    drawn = query_strategy if query_strategy is not None else queries(scopes=("global", "node"))
    asked = draw(st.lists(drawn, min_size=1, max_size=3))
    dice = random.Random(draw(st.integers(0, 2**32)))
    has_nulls, disorder, key_count = (
        draw(st.booleans()),
        draw(st.sampled_from([0, 0, 3])),
        draw(st.sampled_from([1, 3, 40])),
    )
    steps: list[Step] = []
    time = 0
    for number in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.sampled_from([20, 100, 300]))):
            row = _bulk_row(dice, time - dice.randint(0, disorder), key_count, has_nulls)
            offset = sum(isinstance(step, Arrived) for step in steps)
            steps.append(Arrived("a", offset, row))
            time += dice.choice([0, 0, 0, 1, 1, 15 if dice.random() < 0.05 else 0])
        steps += [Emit(), Advanced("a", time - draw(st.integers(0, 20)))]
        if draw(st.booleans()):
            steps.append(Arrived("b", number, _bulk_row(dice, time, key_count, has_nulls)))
            steps.append(Emit())
    if draw(st.booleans()):
        steps.append(Flushed())
    settings = StreamSettings(
        tuple(_renamed(each, f"q{number}") for number, each in enumerate(asked)),
        disorder=draw(st.sampled_from([None, 2])),
    )
    return Scenario(settings, steps)


def _bulk_row(dice: random.Random, time: int, key_count: int, has_nulls: bool) -> dict[str, Any]:
    row = {
        "k": f"k{dice.randrange(key_count)}",
        "g": dice.randrange(key_count),
        "i": dice.randint(-(10**6), 10**6),
        "x": dice.gauss(0, 1),
        "d": Decimal(dice.randint(-(10**4), 10**4)).scaleb(-2),
        "s": dice.choice(["", "a", "b", "ab"]),
        "id": dice.randrange(50),
        "mark": dice.choice(["start", "stop", *["none"] * 20]),
        "day": date.fromordinal(738_000 + dice.randrange(key_count)),
        "at": datetime.fromtimestamp(dice.randrange(key_count) - 5, UTC),
        "b": bytes([dice.randrange(key_count)]),
    }
    if has_nulls:
        row = {name: None if dice.random() < 0.05 else value for name, value in row.items()}
    if dice.random() < 0.02:
        name = dice.choice(sorted(row))
        row |= {name: None, UNREAD + name: "?"}
    return {"time": time} | row
