"""Aggregates against Spark's own on values that break naive code: equal to the bit, or different for a stated reason."""

import importlib.metadata
import importlib.util
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from packaging.version import Version

import headwater as hw
from headwater.reference.aggregates import value_of

pytestmark = pytest.mark.spark

NAN, INF = math.nan, math.inf
TINY, LARGEST = 5e-324, 1.7976931348623157e308
QUANTILES = {f"q{i}": q for i, q in enumerate((0.0, 0.04, 0.05, 0.1, 0.25, 0.3, 1 / 3, 0.5, 0.75, 0.9, 0.999, 1.0))}

FLOATS = [
    [1.5],
    [None, 2.0, None],
    [None],
    [2012.0, 2013.0],
    [0.1, 0.2, 0.3, 0.1],
    [-0.0, 0.0, 1.0],
    [-0.0, -0.0],
    [NAN, 1.0, NAN, None],
    [NAN, NAN],
    [NAN, INF, -INF],
    [INF, INF, 1.0],
    [-INF, 1.0, 2.0],
    [-INF, INF],
    [TINY, 2 * TINY, 3 * TINY],
    [TINY, -TINY, 1.0],
    [2.2250738585072014e-308, 2.225073858507201e-308],
    [1e16, 1.0, -1e16],
    [1e18 + 128 * n for n in range(11)],
    [-1.0, 1.5 * 2.0**-53],
    [1e200, -1e200, 3.0],
    [LARGEST, 1.0, -2.0],
    [LARGEST, LARGEST, -LARGEST],
    [10.0**n for n in range(-10, 10)],
]
LONGS = [
    [2012, 2013],
    [2**53, 2**53 + 1, 2**53 + 2],
    [2**62, 2**62 + 1],
    [10**18 + 128 * n for n in range(11)],
    [2**63 - 1, -(2**63)],
    [2**63 - 1, 2**63 - 1, None],
    [-(2**63), -1],
    [3, None, 3, 1, 1],
    [None, None],
]
DECIMALS = [
    [Decimal(text) for text in case.split()]
    for case in (
        "0.1 0.2 0.3",
        "2012 2013",
        "12345678901234567890.12 12345678901234567890.13",
        "-99999999999999999999.99 99999999999999999999.99",
        "0.01 0.01 0.02 0.02",
        "7",
    )
]
KINDS = {
    "double": (pa.float64(), FLOATS),
    "float": (pa.float32(), [[None if v is None else float(np.float32(v)) for v in case] for case in FLOATS[:13]]),
    "long": (pa.int64(), LONGS),
    "int": (pa.int32(), [[2012, 2013], [2**31 - 1, -(2**31), 0], [None, 1, 1, 4], [-7, 3]]),
    "decimal": (pa.decimal128(22, 2), DECIMALS),
}

OURS = hw.query(
    "q",
    hw.tumbling(10),
    keys=["case"],
    n=hw.count(),
    valid=hw.count("v"),
    total=hw.sum("v"),
    mean=hw.avg("v"),
    least=hw.min("v"),
    most=hw.max("v"),
    variance=hw.variance("v"),
    deviation=hw.stddev("v"),
    different=hw.count_distinct("v"),
    common=hw.mode("v"),
    **{name: hw.quantile("v", q) for name, q in QUANTILES.items()},
)
SPARKS = {
    "n": "count(1)",
    "valid": "count(v)",
    "total": "try_sum(v)",
    "mean": "avg(v)",
    "least": "min(v)",
    "most": "max(v)",
    "variance": "var_samp(v)",
    "deviation": "stddev(v)",
    "different": "count(distinct v)",
    "common": "mode(v, true)",
    **{name: f"percentile(v, {q!r}D)" for name, q in QUANTILES.items()},
}
#: What Spark rounds on the way and headwater only once.
ROUNDED = ("total", "mean", "variance", "deviation")
#: Until 4.3 Spark's percentile, and its squares of differences, were rounded on another way.
IS_OLD = (
    Version(importlib.metadata.version("pyspark")) < Version("4.3") if importlib.util.find_spec("pyspark") else False
)
#: Where that shows in more than the last bits.
FAR_OFF = {
    ("double", tuple(1e18 + 128 * n for n in range(11))): ("variance", "deviation"),
    ("long", tuple(10**18 + 128 * n for n in range(11))): ("variance", "deviation"),
    ("double", (1e16, 1.0, -1e16)): ("total", "mean"),
    ("double", (1e200, -1e200, 3.0)): ("total", "mean"),
    ("double", (LARGEST, LARGEST, -LARGEST)): ("total", "mean"),
    ("long", (2**62, 2**62 + 1)): ("variance", "deviation"),
    ("long", (2**63 - 1, -(2**63))): ("mean",),
    ("decimal", tuple(DECIMALS[2])): ("variance", "deviation"),
}
FAR_OFF_IN_OLD = {
    ("double", (1e200, -1e200, 3.0)): ROUNDED,
    ("double", (LARGEST, LARGEST, -LARGEST)): ROUNDED,
    ("double", (LARGEST, 1.0, -2.0)): ("variance", "deviation"),
}


@pytest.fixture(scope="module")
def answers(spark):
    """For each case, a kind of column and values: Spark's row, headwater's, and the one of Spark's operators."""
    from pyspark.sql import functions as F

    columns = [F.expr(sql).alias(name) for name, sql in SPARKS.items()]
    native = hw.query("native", hw.tumbling(10), keys=["case"], **dict(OURS.aggregates[:6]))
    found = {}
    for kind, (type_, cases) in KINDS.items():
        events = [{"time": 5, "case": i, "v": value} for i, case in enumerate(cases) for value in case]
        schema = pa.schema([("time", pa.int64()), ("case", pa.int64()), ("v", type_)])
        frame = spark.createDataFrame(pa.Table.from_pylist(events, schema)).repartition(2)
        tables = [frame.groupBy("case").agg(*columns), hw.aggregate(frame, OURS), hw.aggregate(frame, native)]
        rows = [{row["case"]: row for row in table.toArrow().to_pylist()} for table in tables]
        found |= {(kind, tuple(case)): [by_case[i] for by_case in rows] for i, case in enumerate(cases)}
    return found


def same(one, other):
    """Equal, NaN to itself; there is one zero."""
    return one == other or (one != one and other != other)


def is_finite(values):
    return all(value is None or math.isfinite(value) for value in values)


def test_order_statistics_and_counts_are_sparks_to_the_bit_on_hostile_values(answers):
    beyond = ("double", (LARGEST, LARGEST, -LARGEST))
    for case, (theirs, ours, _) in answers.items():
        names = [name for name in SPARKS if name not in ROUNDED and not (case == beyond and name in QUANTILES)]
        alike = {name: close_on(case[1]) if IS_OLD and name in QUANTILES else same for name in names}
        assert {name: ours[name] for name in names if not alike[name](ours[name], theirs[name])} == {}, (case, theirs)


def close_on(values):
    """Equal but for the last bits of the largest of these values; what lies between infinities is not compared."""
    largest = max((abs(float(value)) for value in values if value is not None), default=0.0)

    def close(one, other):
        if not is_finite(values) or one is None or other is None:
            return not is_finite(values) or one is other
        return math.isclose(one, other, rel_tol=0.0, abs_tol=1e-15 * largest + TINY)

    return close


@pytest.mark.skipif(IS_OLD, reason="Spark's percentile has another way there until 4.3")
def test_where_the_way_between_two_doubles_is_beyond_doubles_sparks_percentile_falls_and_quantiles_do_not(answers):
    theirs, ours, _ = answers["double", (LARGEST, LARGEST, -LARGEST)]
    assert [theirs[name] for name in QUANTILES] == [-LARGEST, *[INF] * 6, *[LARGEST] * 5]
    found = [ours[name] for name in QUANTILES]
    assert found == sorted(found) and found[4] == 0.0
    assert all(map(math.isfinite, found))


def test_sums_averages_and_deviations_are_sparks_but_rounded_once(answers):
    asked, far_off = dict(OURS.aggregates), {}
    for case, (theirs, ours, _) in answers.items():
        for name in ROUNDED:
            found, sparks = ours[name], theirs[name]
            if not is_finite(case[1]):
                assert same(found, sparks), (case, name)
                continue
            assert found == value_of(asked[name], [{"v": value} for value in case[1]]), (case, name)
            if found is None or sparks is None:
                assert found is sparks, (case, name)
            elif not math.isclose(found, sparks, rel_tol=1e-12):
                far_off[case] = (*far_off.get(case, ()), name)
    assert far_off == (FAR_OFF | FAR_OFF_IN_OLD if IS_OLD else FAR_OFF)


def test_plans_of_sparks_operators_say_the_same_on_hostile_values(answers):
    for case, (_, ours, native) in answers.items():
        for name in ("n", "valid", "total", "mean", "least", "most"):
            assert same(native[name], ours[name]), (case, name)
