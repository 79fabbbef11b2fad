"""Aggregates in Spark SQL: what is kept of each slice, how slices add up, and the value of a window.

Sums of 64-bit integers are kept as two sums, of the high and of the low 32 bits: neither can overflow below 2**31 events, so no
order of events can make a difference. Everything is long arithmetic, so that Spark keeps it in place in its hash tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from headwater.language.aggregations import Aggregation
from headwater.spark.native.types import is_narrow, quoted

LOW = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SliceColumn:
    """One column of the table of slices: ``lift`` makes it of events, ``combine`` of the same column of several slices."""

    name: str
    lift: str
    combine: str


class Operators:
    """The shared operators of several queries, each kept once; and what windows show of them.

    ``steps`` are columns that windows need on the way to their values, each built of those of the steps before.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._numbers: dict[str, int] = {}
        self.kept: dict[str, SliceColumn] = {}
        self.steps: list[dict[str, str]] = [{} for _ in range(7)]
        self._keep("n", "count(1)", "sum({})")

    def _keep(self, name: str, lift: str, combine: str) -> str:
        self.kept.setdefault(name, SliceColumn(name, lift, combine.format(name)))
        return name

    def _step(self, place: int, name: str, sql: str) -> str:
        self.steps[place].setdefault(name, sql)
        return name

    def _number(self, column: str) -> int:
        return self._numbers.setdefault(column, len(self._numbers))

    def value(self, aggregation: Aggregation) -> str:
        """The SQL of an aggregate over the columns of windows; its operators are kept from now on."""
        column = aggregation.column
        if column is None:
            return "n"
        type_ = self._schema.field(column).type
        match aggregation.function:
            case "count":
                return self._valid(column)
            case "min" | "max":
                return self._shown(self._extreme(aggregation.function, column), type_)
            case "range":
                return self._range(column, type_)
            case "sum":
                return self._sum(column, type_)
        return self._avg(column, type_)

    def _valid(self, column: str) -> str:
        return self._keep(f"valid{self._number(column)}", f"count({quoted(column)})", "sum({})")

    def _extreme(self, function: str, column: str) -> str:
        sql = f"{function}({quoted(column)})"
        return self._keep(f"{function}{self._number(column)}", sql, f"{function}({{}})")

    @staticmethod
    def _shown(value: str, type_: pa.DataType) -> str:
        """A float as it is shown: with one zero and one NaN."""
        if not pt.is_floating(type_):
            return value
        kind = "FLOAT" if type_ == pa.float32() else "DOUBLE"
        return f"(CASE WHEN isnan({value}) THEN CAST('NaN' AS {kind}) ELSE {value} + CAST(0 AS {kind}) END)"

    def _range(self, column: str, type_: pa.DataType) -> str:
        low, high = self._extreme("min", column), self._extreme("max", column)
        if pt.is_floating(type_):
            spread = f"(CAST({high} AS DOUBLE) - CAST({low} AS DOUBLE))"
            return self._shown(spread, pa.float64())
        if is_narrow(type_):
            return f"(CAST({high} AS BIGINT) - CAST({low} AS BIGINT))"
        # Beyond int64 it is null, as a sum is.
        return f"(CASE WHEN {low} >= 0L OR {high} <= {low} + 9223372036854775807L THEN {high} - {low} END)"

    # --- sums ---

    def _sum(self, column: str, type_: pa.DataType) -> str:
        if pt.is_floating(type_):
            return self._shown(self._plain_sum(column, "DOUBLE"), pa.float64())
        if is_narrow(type_):
            return self._plain_sum(column, "BIGINT")
        high, low = self._halves(column, type_)
        return f"(CASE WHEN {high} BETWEEN -2147483648L AND 2147483647L THEN shiftleft({high}, 32) | {low} END)"

    def _plain_sum(self, column: str, kind: str) -> str:
        return self._keep(f"sum{self._number(column)}", f"sum(CAST({quoted(column)} AS {kind}))", "sum({})")

    def _halves(self, column: str, type_: pa.DataType) -> tuple[str, str]:
        """The sum as high * 2**32 + low with 0 <= low < 2**32."""
        number = self._number(column)
        if is_narrow(type_):
            total = self._plain_sum(column, "BIGINT")
            high, low = f"shiftright({total}, 32)", f"({total} & {LOW}L)"
        else:
            up, down = f"high{number}", f"low{number}"
            carried = f"sum({up} + shiftright({down}, 32))"
            self.kept.setdefault(up, SliceColumn(up, f"sum(shiftright({quoted(column)}, 32))", carried))
            self.kept.setdefault(down, SliceColumn(down, f"sum({quoted(column)} & {LOW}L)", f"sum({down} & {LOW}L)"))
            high, low = f"{up} + shiftright({down}, 32)", f"{down} & {LOW}L"
        return self._step(0, f"h{number}", high), self._step(0, f"l{number}", low)

    def _avg(self, column: str, type_: pa.DataType) -> str:
        valid = self._valid(column)
        if pt.is_floating(type_):
            return self._shown(f"({self._plain_sum(column, 'DOUBLE')} / nullif({valid}, 0L))", pa.float64())
        high, low = self._halves(column, type_)
        return self._quotient(self._number(column), high, low, valid)

    def _quotient(self, number: int, high: str, low: str, count: str) -> str:
        """A 95-bit sum through a count below 2**31, rounded once to a double.

        Below 2**53 both are doubles and IEEE's own division does it. Otherwise the quotient is worked out in whole numbers to
        at least 55 bits, the last of them set if anything is left over (so that no tie is taken for one), and Spark's cast of a
        long to a double, which rounds to even, is the one rounding. Dividing by a power of two is exact.
        """
        n, u, v, q, r, s, a, b = (f"{letter}{number}_" for letter in "nuvqrsab")
        self._step(0, n, f"nullif({count}, 0L)")
        # The size of the sum, in two halves.
        self._step(1, u, f"CASE WHEN {high} >= 0L THEN {high} WHEN {low} = 0L THEN -{high} ELSE -{high} - 1L END")
        self._step(1, v, f"CASE WHEN {high} >= 0L OR {low} = 0L THEN {low} ELSE {LOW + 1}L - {low} END")
        self._step(2, q, f"shiftleft({u} div {n}, 32) + (shiftleft({u} % {n}, 32) + {v}) div {n}")
        self._step(2, r, f"(shiftleft({u} % {n}, 32) + {v}) % {n}")
        tiers = ((55, 0), (47, 8), (39, 16), (31, 24), (23, 31))
        whens = " ".join(f"WHEN {q} >= {1 << bits}L THEN {shift}" for bits, shift in tiers)
        # A quotient of 2**63 (of nothing but the smallest integers) is negative; it needs no more bits either.
        self._step(3, s, f"CASE WHEN {q} < 0L THEN 0 {whens} ELSE 39 END")
        self._step(4, a, f"shiftleft({r}, least({s}, 31))")
        self._step(5, b, f"shiftleft({a} % {n}, greatest({s} - 31, 0))")
        more = f"(shiftleft({a} div {n}, greatest({s} - 31, 0)) | CASE WHEN {s} > 31 THEN {b} div {n} ELSE 0L END)"
        rest = f"CASE WHEN {b} % {n} = 0L THEN 0L ELSE 1L END"
        size = f"CAST(shiftleft({q}, {s}) | {more} | {rest} AS DOUBLE) / CAST(shiftleft(1L, {s}) AS DOUBLE)"
        small = f"CAST(shiftleft({high}, 32) | {low} AS DOUBLE) / CAST({n} AS DOUBLE)"
        sign = f"CASE WHEN {high} < 0L THEN -1.0D ELSE 1.0D END"
        large = f"{sign} * CASE WHEN {q} < 0L THEN CAST(9223372036854775808 AS DOUBLE) ELSE {size} END"
        value = f"CASE WHEN {high} BETWEEN -2097152L AND 2097151L THEN {small} ELSE {large} END"
        return self._step(6, f"avg{number}", value)
