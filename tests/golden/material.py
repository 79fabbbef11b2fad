"""What golden files are made of: queries of every kind, and events of which each number says all."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

import headwater as hw
from golden import own
from headwater import col

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


def event(number: int, disorder: int = 3) -> dict[str, Any]:
    """One event. Times go on by about one a number, and back by up to ``disorder``; some values are null."""
    mixed = number * 7919 % 1009
    return {
        "time": number
        + mixed // 7 % 2
        - (mixed % (disorder + 1) if disorder else 0)
        - (0 if disorder else mixed // 7 % 2),
        "k": None if mixed % 11 == 0 else "uvé"[mixed % 3],
        "g": None if mixed % 13 == 0 else mixed % 2,
        "i": None if mixed % 17 == 0 else mixed * (2**40 if mixed % 5 == 0 else 1) - 500,
        "x": None if mixed % 19 == 0 else (mixed - 300) / 10 * (1e15 if mixed % 23 == 0 else 1),
        "d": None if mixed % 7 == 0 else Decimal(mixed - 400).scaleb(-2),
        "s": None if mixed % 9 == 0 else "abcé"[: 1 + mixed % 4],
        "id": mixed % 12,
        "mark": {0: "start", 5: "stop"}.get(number % 9, "none"),
    }


def events(begin: int, count: int, disorder: int = 3) -> pa.RecordBatch:
    """The events of these numbers."""
    return pa.RecordBatch.from_pylist([event(n, disorder) for n in range(begin, begin + count)], schema=SCHEMA)


STOP, START = col("mark") == "stop", col("mark") == "start"

#: Over `events`, in ticks: every window, aggregate, scope and option.
QUERIES = [
    hw.query(
        "tumbling",
        hw.tumbling(10),
        keys="k",
        lateness=5,
        tumbling_n=hw.count(),
        tumbling_i=hw.sum("i"),
        tumbling_x=hw.sum("x"),
        tumbling_d=hw.sum("d"),
        tumbling_avg=hw.avg("x"),
        tumbling_low=hw.min("x"),
        tumbling_high=hw.max("s"),
        tumbling_range=hw.value_range("i"),
        tumbling_var=hw.variance("x"),
        tumbling_dev=hw.stddev("d"),
    ),
    hw.query(
        "sliding",
        hw.sliding(20, 5, 3),
        emit_empty=True,
        sliding_mid=hw.median("x"),
        sliding_q=hw.quantile("i", 0.9, "lower"),
        sliding_mode=hw.mode("s"),
        sliding_kinds=hw.count_distinct("d"),
    ),
    hw.query(
        "products",
        hw.tumbling(16),
        keys="g",
        product_x=hw.product("x"),
        product_mean=hw.geometric_mean("id"),
        sums="native",
    ),
    hw.query("band", hw.band(15, 60), band_first=hw.first("s"), band_last=hw.last("x"), band_all=hw.collect("i")),
    hw.query(
        "session",
        hw.session(2, 15),
        keys=["g", "k"],
        lateness=4,
        session_ids=hw.approx_distinct("id", 8),
        session_q=hw.approx_quantile("x", 0.5, 0.02),
        session_n=hw.count("s"),
    ),
    hw.query("node", hw.session(3), scope="node", node_n=hw.count()),
    hw.query("matched", hw.session(3), scope="matched", keys="k", where=col("g") == 1, matched_n=hw.count()),
    hw.query("punctuated", hw.punctuated(STOP, False, 30), keys="g", punctuated_x=hw.sum("x")),
    hw.query("between", hw.between(START, STOP), between_n=hw.count(), between_words=hw.collect("s")),
    hw.query("custom", hw.custom("golden.own:cut_at_stops", 0, ["mark"]), custom_n=hw.count()),
    hw.query("count all", hw.count_tumbling(7), all_x=hw.sum("x"), all_mid=hw.median("i")),
    hw.query("count key", hw.count_sliding(5, 3, "key"), keys="k", key_last=hw.last("s"), key_d=hw.sum("d")),
    hw.query("distinct", hw.tumbling(12), distinct="id", where=col("x") > 0, distinct_n=hw.count()),
    hw.query(
        "own",
        hw.tumbling(14),
        own_squares=hw.apply("golden.own:SQUARES", "i"),
        own_length=hw.apply(own.MEAN_LENGTH, "s"),
        own_trail=hw.apply(own.TRAIL, "s"),
    ),
]
#: Of which little is kept.
LEAN = [
    hw.query("lean", hw.tumbling(9), keys="g", lean_x=hw.sum("x")),
    hw.query("few", hw.tumbling(20), keys="k", few_n=hw.count(), few_mid=hw.median("i")),
]
#: One that comes while a stream runs.
ADDED = hw.query("added", hw.tumbling(15), keys="k", added_n=hw.count(), added_high=hw.max("d"))

_MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 15, 250_000)
_ZONED = _MOMENT.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
CONDITIONS = [
    (col("a") > 0) & (col("b") <= 1.5) & (col("c") != "é\n'\u2028"),
    (col("a") == True) | (col("b") < Decimal("2.50")) | (col("c") >= 10**30),  # noqa: E712
    ~(col("a") == b"\x00\xff"),
    col("a").isin(["no", "1", "true"]) & col("b").between(-1, 1),
    col("a").is_null() | col("b").is_not_null(),
    col("a").matches("[0-9]+|x.*"),
    (col("a") == _MOMENT) & (col("b") < _ZONED) & (col("c") > datetime.date(2024, 2, 29)),
    col("a") < col("b"),
]
#: Queries as people write them down: in durations, and with everything that their files can say.
WRITTEN = [
    *QUERIES,
    hw.query("durations", hw.sliding("1.5 min", "250 ms", "1 s"), lateness="10 s", n=hw.count()),
    hw.query("long session", hw.session("30 s", max_duration="1 h"), scope="ordinal", n=hw.count()),
    hw.query("overlap", hw.punctuated(col("a") > 1, True, "5 min"), scope="overlap", n=hw.count()),
    hw.query("a custom one", hw.custom("golden.own:cut_at_stops", "5 s", ["mark"]), n=hw.count()),
    hw.query("count sliding", hw.count_sliding(100, 10), keys=["a", "b"], n=hw.count()),
    hw.query("a day", hw.tumbling("1 day"), mid=hw.median("a", "upper"), near=hw.quantile("a", 1, "nearest")),
    *(
        hw.query(f"where {number}", hw.tumbling(10), where=condition, n=hw.count())
        for number, condition in enumerate(CONDITIONS)
    ),
]
