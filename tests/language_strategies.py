"""Hypothesis generators for the language: columns of every type, conditions over them, windows, aggregates, queries."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import headwater.language.aggregations as agg
from headwater.language import windows
from headwater.language.checks import problems
from headwater.language.expressions import And, Compare, Expr, In, IsNull, Matches, Not, Or, Range, col
from headwater.language.query import RESERVED, SCOPES, Query, query_of
from headwater.language.times import Nanos
from headwater.language.user_code import aggregate_of

# Few and awkward values, so that columns and literals meet: signs, ends of types, halves, what floats cannot hold.
INTEGERS = st.sampled_from([0, 1, -1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-4, 4)
UNSIGNED = st.sampled_from([0, 1, 2, 2**53 + 1, 2**63, 2**64 - 1])
FLOATS = st.sampled_from(
    [0.0, -0.0, 0.5, 1.0, 2.5, 2.0**53, 2.0**63, 2.0**64, 5e-324, 1.7976931348623157e308]
) | st.floats(width=32)
DECIMALS = st.sampled_from(
    [Decimal(text) for text in ("0", "1", "1.0", "2.5", "-0.50", "9007199254740993", "1e20", "-1e20")]
)
TEXTS = st.sampled_from(["", "a", "b", "ab", "1", "true", "é", "\ufffd", "\U0001f600", "a\nb"]) | st.text(max_size=3)
BYTES = st.binary(max_size=2)
TIMESTAMPS = st.sampled_from(
    [datetime.datetime(1970, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(2024, 2, 29)]
)
ZONED = st.sampled_from([datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)]) | TIMESTAMPS.map(
    lambda moment: moment.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
)
DATES = st.sampled_from([datetime.date(1970, 1, 1), datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)])

COLUMNS = {
    "int": (pa.int64(), INTEGERS),
    "small": (pa.int8(), st.integers(-128, 127)),
    "unsigned": (pa.uint64(), UNSIGNED),
    "float": (pa.float64(), FLOATS),
    "single": (pa.float32(), st.floats(width=32)),
    "flag": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(38, 4), DECIMALS),
    "text": (pa.string(), TEXTS),
    "words": (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    "view": (pa.string_view(), TEXTS),
    "bytes": (pa.binary(), BYTES),
    "moment": (pa.timestamp("us"), TIMESTAMPS),
    "second": (pa.timestamp("s"), TIMESTAMPS.map(lambda moment: moment.replace(microsecond=0))),
    "zoned": (pa.timestamp("ms", tz="UTC"), TIMESTAMPS.map(lambda moment: moment.replace(microsecond=999000))),
    "day": (pa.date32(), DATES),
    "nothing": (pa.null(), st.none()),
}
COLUMN_NAMES = st.sampled_from(sorted(COLUMNS))
NUMBERS = INTEGERS | UNSIGNED | FLOATS | DECIMALS | st.booleans() | st.sampled_from([10**400, -(10**400)])
LITERALS = st.one_of(NUMBERS, TEXTS, BYTES, TIMESTAMPS, ZONED, DATES)
LISTS = st.sampled_from([NUMBERS, TEXTS, BYTES, TIMESTAMPS, DATES]).flatmap(
    lambda kind: st.lists(kind, min_size=1, max_size=4)
)
PATTERNS = st.sampled_from(["", ".*", "a|b", "[0-9]+", "true", r"-?\d+\.0", "(?s)a.*", "nan"])


@st.composite
def conditions_over_tables(draw: st.DrawFn, rows_max: int = 8) -> tuple[Expr, pa.Table]:
    """A condition and a few rows of the columns it reads, nulls among them."""
    condition = draw(conditions())
    count = draw(st.integers(0, rows_max))
    columns = {}
    for name in sorted(condition.columns()):
        data_type, values = COLUMNS[name]
        cells = draw(st.lists(st.none() | values, min_size=count, max_size=count))
        encoded = pa.types.is_dictionary(data_type)
        array = pa.array(cells, data_type.value_type if encoded else data_type)
        columns[name] = array.dictionary_encode() if encoded else array
    return condition, pa.table(columns)


def conditions(names: st.SearchStrategy[str] = COLUMN_NAMES, sound: bool = False) -> st.SearchStrategy[Expr]:
    """Conditions of any shape over columns; only `sound` ones are all accepted by a query."""
    columns = names.map(col)
    ops = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    leaves: st.SearchStrategy[Expr] = st.one_of(
        st.builds(Compare, ops, columns, LITERALS | columns),
        st.builds(Compare, ops, LITERALS, columns),
        st.builds(lambda column, values: In(column, tuple(values)), columns, LISTS),
        st.builds(Range, columns, LITERALS, LITERALS),
        st.builds(IsNull, columns),
        st.builds(Matches, columns, PATTERNS),
    )
    return st.recursive(
        leaves.filter(lambda leaf: not list(problems(leaf))) if sound else leaves,
        lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner),
        max_leaves=6,
    )


# ---- Queries -------------------------------------------------------------------------------------------------------


def cut_at_every_tenth(events: dict[str, np.ndarray], state: object) -> tuple[list[int], object]:
    """A custom window that another process finds by path."""
    return [int(time) for time in events["time"] if time % 10 == 0], state


#: An aggregate that another process finds by path.
LONGEST = aggregate_of("longest", lambda values: max(map(len, values)), max, int, 0, result_type=pa.int64())

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=6)
FREE_NAMES = NAMES.filter(lambda name: name not in RESERVED)
DURATIONS = st.integers(1, 2**61) | st.integers(1, 10**20).map(Nanos) | st.sampled_from(["10 s", "1.5 min", "250 ms"])
OFFSETS = DURATIONS | st.just(0) | st.integers(-(2**61), 0)
OPTIONAL = st.none() | DURATIONS
SOUND = conditions(NAMES, sound=True)
PER = st.sampled_from(["all", "key"])
COUNTS = st.integers(1, 2**61)

CUTS = st.sampled_from([cut_at_every_tenth, "language_strategies:cut_at_every_tenth"])
WINDOWS = st.one_of(
    st.builds(windows.tumbling, DURATIONS, OFFSETS),
    st.builds(windows.sliding, DURATIONS, DURATIONS, OFFSETS),
    st.builds(windows.band, st.integers(-(2**62), 2**62), DURATIONS),
    st.builds(windows.session, DURATIONS, OPTIONAL),
    st.builds(windows.punctuated, SOUND, st.booleans(), OPTIONAL),
    st.builds(windows.between, SOUND, SOUND, OPTIONAL),
    st.builds(windows.custom, CUTS, DURATIONS, st.sampled_from([(), ("door",)])),
    st.builds(windows.count_tumbling, COUNTS, PER),
    st.builds(windows.count_sliding, COUNTS, COUNTS, PER),
)
METHODS = st.sampled_from(["linear", "lower", "upper", "nearest"])
FRACTIONS = st.floats(0, 1) | st.sampled_from([0, 1])
PLAIN = "sum avg min max value_range mode count_distinct first last collect variance stddev product geometric_mean"
AGGREGATIONS = st.one_of(
    st.builds(agg.count, st.none() | NAMES),
    *(st.builds(getattr(agg, name), NAMES) for name in PLAIN.split()),
    st.builds(agg.median, NAMES, METHODS),
    st.builds(agg.distinct, NAMES),
    st.builds(
        lambda names, k, ties: agg.top(names[0], k, ties=ties, keep=names[1:]),
        st.lists(NAMES, min_size=1, max_size=3, unique=True),
        st.integers(1, 1_000_000),
        st.booleans(),
    ),
    st.builds(agg.max_by, NAMES, NAMES),
    st.builds(agg.min_by, NAMES, NAMES),
    st.builds(agg.rows, st.lists(NAMES, min_size=1, max_size=3, unique=True)),
    st.builds(agg.quantile, NAMES, FRACTIONS, METHODS),
    st.builds(agg.approx_distinct, NAMES, st.integers(4, 18)),
    st.builds(agg.approx_quantile, NAMES, FRACTIONS, st.floats(1e-6, 0.5)),
    st.builds(agg.apply, st.sampled_from([LONGEST, "language_strategies:LONGEST"]), NAMES),
)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Any query that is accepted."""
    window = draw(WINDOWS)
    keys = draw(st.lists(FREE_NAMES, unique=True, max_size=2))
    aliases = draw(st.lists(FREE_NAMES.filter(lambda name: name not in keys), unique=True, min_size=1, max_size=3))
    scope = draw(st.sampled_from(SCOPES if window.is_context else SCOPES[:2]))
    return query_of(
        draw(NAMES),
        window,
        tuple((alias, draw(AGGREGATIONS)) for alias in aliases),
        keys=keys,
        where=draw(st.none() | SOUND),
        distinct=draw(st.none() | NAMES),
        lateness=draw(OFFSETS.filter(lambda value: isinstance(value, str) or value >= 0)),
        emit_empty=draw(st.booleans()) if isinstance(window, windows.Sliding | windows.Band) else False,
        scope=scope,
        sums=draw(st.sampled_from(["exact", "native"])),
        home=None if scope == "global" else draw(st.none() | NAMES),
    )
