"""Random queries over every window, scope and aggregate, and the users' own code that some of them name.

Numbers are few and small, so that events meet windows at their edges and keys repeat. Only aggregates whose bits are guaranteed
are drawn: a result is right or wrong, never nearly right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa

from headwater.language import aggregations as agg
from headwater.language import windows as win
from headwater.language.aggregations import Aggregation
from headwater.language.expressions import Expr, col
from headwater.language.query import CONTEXT_SCOPES, Query, query_of
from headwater.language.user_code import Aggregate, Operator, aggregate_of
from headwater.language.windows import Between, Punctuated, Session, Window

SCHEMA = pa.schema(
    {
        "time": pa.int64(),
        "k": pa.string(),
        "g": pa.int64(),
        "i": pa.int64(),
        "x": pa.float64(),
        "d": pa.decimal128(20, 2),
        "s": pa.string(),
        "id": pa.int64(),
        "mark": pa.string(),
    }
)
NUMBERS, ORDERED, ANY = ("i", "x", "d"), ("i", "x", "d", "s"), ("i", "x", "d", "s", "id", "mark")


def sum_of_squares(values: Any) -> int:
    """What a user's operator makes of values."""
    return sum(int(value) ** 2 for value in values)


def added(left: Any, right: Any) -> Any:
    """Numbers added, texts joined."""
    return left + right


def total_length(words: Any) -> int:
    """Letters in all words."""
    return sum(map(len, words))


def mean(total: int, number: int) -> float | None:
    """The mean, or None if there are no values."""
    return total / number if number else None


#: Users' own aggregates: one whose order does not matter, one whose order does, and two that share an operator.
_HERE = "headwater.simulator.workloads.queries:"
SQUARED = Operator("squared", sum_of_squares, added, 0, path=_HERE + "SQUARED")
SQUARES = Aggregate("squares", (SQUARED,), float, path=_HERE + "SQUARES")
TRAIL = aggregate_of("trail", "".join, added, str, "", commutative=False, result_type=pa.string(), path=_HERE + "TRAIL")
LENGTHS = Operator("lengths", total_length, added, 0, path=_HERE + "LENGTHS")
NUMBER = Operator("number", len, added, 0, path=_HERE + "NUMBER")
MEAN_LENGTH = Aggregate("mean_length", (LENGTHS, NUMBER), mean, path=_HERE + "MEAN_LENGTH")
TOTAL_LENGTH = Aggregate("total_length", (LENGTHS,), int, pa.int64(), path=_HERE + "TOTAL_LENGTH")


def cut_at_stops(events: dict[str, Any], state: int | None) -> tuple[list[int], int | None]:
    """Custom windows: every "stop" cuts, once per time."""
    cuts = []
    for time, mark in zip(events["time"], events["mark"]):
        if mark == "stop" and (state is None or time > state):
            state = int(time)
            cuts.append(state)
    return cuts, state


def cut_before_stops(events: dict[str, Any], state: int | None) -> tuple[list[int], int | None]:
    """Custom windows that know late where they ended: a "stop" cuts three ticks before itself."""
    cuts = []
    for time, mark in zip(events["time"], events["mark"]):
        if mark == "stop" and (state is None or time - 3 > state):
            state = int(time) - 3
            cuts.append(state)
    return cuts, state


_MARKERS: tuple[Expr, ...] = (col("mark") == "start", col("mark") == "stop", col("mark").isin(["start", "stop"]))
CONDITIONS: tuple[Expr, ...] = (
    col("i") > 0,
    col("s").is_not_null(),
    (col("s") == "a") | (col("g") == 1),
    ~col("mark").isin(["stop"]),
)


def _limit(dice: Random) -> int | None:
    return dice.choice([None, None, dice.randint(3, 40)])


WINDOWS: dict[str, Callable[[Random], Window]] = {
    "tumbling": lambda dice: win.tumbling(dice.randint(2, 25), dice.randint(-7, 7)),
    "sliding": lambda dice: win.sliding(dice.randint(3, 25), dice.randint(2, 15), dice.randint(-7, 7)),
    "band": lambda dice: win.band(dice.randint(-10, 150), dice.randint(5, 60)),
    "session": lambda dice: win.session(dice.randint(1, 8), _limit(dice)),
    "punctuated": lambda dice: win.punctuated(dice.choice(_MARKERS), dice.random() < 0.5, _limit(dice)),
    "between": lambda dice: win.between(dice.choice(_MARKERS), dice.choice(_MARKERS), _limit(dice)),
    "custom": lambda dice: win.custom(
        dice.choice([cut_at_stops, cut_before_stops]), dice.choice([0, 0, 5]), columns=["mark"]
    ),
    "count_tumbling": lambda dice: win.count_tumbling(dice.randint(1, 8), dice.choice(["all", "key"])),
    "count_sliding": lambda dice: win.count_sliding(
        dice.randint(1, 8), dice.randint(1, 8), dice.choice(["all", "key"])
    ),
}
#: How often each kind is drawn.
_WEIGHTS = {"tumbling": 3, "sliding": 3, "session": 3, "punctuated": 2, "between": 2}

_AGGREGATES: dict[str, Callable[[Random], Aggregation]] = {
    "count": lambda dice: agg.count(dice.choice([None, *ANY])),
    "sum": lambda dice: agg.sum(dice.choice(NUMBERS)),
    "avg": lambda dice: agg.avg(dice.choice(NUMBERS)),
    "min": lambda dice: agg.min(dice.choice(ORDERED)),
    "max": lambda dice: agg.max(dice.choice(ORDERED)),
    "range": lambda dice: agg.value_range(dice.choice(NUMBERS)),
    "quantile": lambda dice: agg.quantile(
        dice.choice(NUMBERS), dice.choice([0.0, 0.1, 0.5, 0.9, 1.0]), dice.choice(["linear", "lower", "upper"])
    ),
    "mode": lambda dice: agg.mode(dice.choice(ORDERED)),
    "count_distinct": lambda dice: agg.count_distinct(dice.choice(ANY)),
    "first": lambda dice: agg.first(dice.choice(ANY)),
    "last": lambda dice: agg.last(dice.choice(ANY)),
    "collect": lambda dice: agg.collect(dice.choice(ANY)),
    "variance": lambda dice: agg.variance(dice.choice(NUMBERS)),
    "stddev": lambda dice: agg.stddev(dice.choice(NUMBERS)),
    "product": lambda _: agg.product("i"),
    "approx_distinct": lambda dice: agg.approx_distinct(dice.choice(ANY), 8),
    "approx_quantile": lambda dice: agg.approx_quantile("x", dice.choice([0.1, 0.5]), 0.02),
    "user": lambda dice: dice.choice(
        [agg.apply(SQUARES, "i"), agg.apply(TRAIL, "s"), agg.apply(MEAN_LENGTH, "s"), agg.apply(TOTAL_LENGTH, "s")]
    ),
}


#: Those that came later.
_MORE: dict[str, Callable[[Random], Aggregation]] = {
    "distinct": lambda dice: agg.distinct(dice.choice(ORDERED)),
    "top": lambda dice: agg.top(
        "x", dice.randint(1, 3), ties=dice.random() < 0.5, keep=dice.sample(("i", "d", "s", "id"), dice.randint(0, 2))
    ),
    "max_by": lambda dice: agg.max_by(dice.choice(ANY), dice.choice(ORDERED)),
    "min_by": lambda dice: agg.min_by(dice.choice(ANY), dice.choice(ORDERED)),
    "rows": lambda dice: agg.rows(dice.sample(ANY, 2)),
}


def draw_aggregation(dice: Random) -> Aggregation:
    """Any aggregate, of any column that it takes.

    Those that came later have dice of their own: but for the aggregate a seed is what it was before there were any.
    """
    drawn = _AGGREGATES[dice.choice(sorted(_AGGREGATES))](dice)
    words = dice.getstate()[1]
    later = Random(str((words[0], words[-1])))
    return _MORE[later.choice(sorted(_MORE))](later) if later.random() < 0.2 else drawn


#: The kinds that can be computed where the events are, given the right options.
SPLITTABLE = ("tumbling", "sliding", "band", "session", "punctuated", "between")


def draw_query(dice: Random, name: str, kind: str | None = None, is_splittable: bool = False) -> Query:
    """A query with every option, or only with those that let it be computed where the events are.

    Its result columns have names of their own, so that each has one type.
    """
    kinds = list(SPLITTABLE if is_splittable else WINDOWS)
    kind = kind or dice.choices(kinds, [_WEIGHTS.get(each, 1) for each in kinds])[0]
    window = WINDOWS[kind](dice)
    scopes = ["global"] * 4 + ["node", "ordinal", "matched", "overlap"]
    allowed = [scope for scope in scopes if window.is_context or scope not in CONTEXT_SCOPES]
    chosen = [draw_aggregation(dice) for _ in range(dice.randint(1, 2))]
    options: dict[str, Any] = {
        "keys": dice.choice([(), (), ("k",), ("g", "k")]),
        "where": dice.choice(CONDITIONS) if dice.random() < 0.25 else None,
        "distinct": "id" if dice.random() < 0.15 else None,
        "lateness": dice.choice([0, 0, 5, 30]),
        "emit_empty": not window.is_context and dice.random() < 0.2,
        "scope": dice.choice(allowed),
    }
    if is_splittable:
        options |= {"distinct": None, "scope": dice.choice(["global", "global", "node"])}
        if isinstance(window, Session | Punctuated | Between):
            window = replace(window, max_duration=None)
        if isinstance(window, Punctuated):
            window = replace(window, include_markers=True)
        if isinstance(window, Punctuated | Between):
            options["lateness"] = 0
    aggregates = tuple((f"{name}_v{number}", aggregation) for number, aggregation in enumerate(chosen))
    return query_of(name, window, aggregates, **options)
