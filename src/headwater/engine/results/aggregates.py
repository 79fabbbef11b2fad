"""From partials to values: how each aggregate is lowered, which operators it reads, and the type of its result.

Lowering works on whole columns: one call gives the aggregate of every window at once. What an aggregate of nothing is stands
here too: zero for counts, an empty list for collect, whatever a user's ``lower`` makes of its identities, null for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headwater.base.arrays import BoolArray, Float64Array
from headwater.base.arrow import array_of_integers, plain_type
from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.objects import ObjectColumn, scaled, unscaled
from headwater.engine.operators.operator import Best, Op
from headwater.engine.operators.partials import PartialColumn
from headwater.engine.operators.sums.variance import decimal_variances, variances
from headwater.engine.operators.user import lifted_in_order
from headwater.language.aggregations import FUNCTIONS, Aggregation

INT64, FLOAT64 = pa.int64(), pa.float64()
Columns = list[Any]


def operators_of(aggregation: Aggregation, type: pa.DataType | None) -> tuple[Op, ...]:
    """The shared operators an aggregation is made of, over a column of this type (None: over events).

    >>> from headwater.language.aggregations import avg
    >>> operators_of(avg("load"), pa.float64())
    (Op(kind='sum', column='load', parameter=None), Op(kind='valid', column='load', parameter=None))
    """
    function, column, parameter = aggregation.function, aggregation.column, aggregation.parameter
    if column is None:
        return (Op("count"),)
    match function:
        case "user":
            # Rows may be combined in another order than that of their events: keep the order where it matters.
            return tuple(
                Op("user", column, own) if own.commutative else Op("ordered", column) for own in parameter.operators
            )
        case "approx_distinct":
            return (Op("hll", column, parameter),)
        case "approx_quantile":
            return (Op("ddsketch", column, parameter[1]),)
        case "geometric_mean":
            return (Op("product", column, "float"),)
        case "top":
            k, ties, kept = parameter
            return (Op("top", column, Best(k, ties, True, kept)),)
        case "max_by" | "min_by":
            return (Op("top", parameter, Best(1, False, function == "max_by", (column,))),)
        case "rows":
            return (Op("top", column, Best(0, False, True, parameter)),)
    return tuple(Op(kind, column) for kind in FUNCTIONS[function].operators)


def type_read(aggregation: Aggregation, types: Mapping[str, pa.DataType]) -> pa.DataType | None:
    """The type of the column that an aggregate reads: float64 as long as no event said, None if it counts events.

    One that keeps several columns reads a struct of them.

    >>> from headwater.language.aggregations import max_by
    >>> type_read(max_by("bidder", "price"), {"price": pa.int64(), "bidder": pa.string()})
    StructType(struct<bidder: string, price: int64>)
    """
    read = {name: plain_type(types.get(name, FLOAT64)) for name in aggregation.columns}
    if FUNCTIONS[aggregation.function].operators == ("top",):
        return pa.struct(list(read.items()))
    return None if aggregation.column is None else read[aggregation.column]


def result_type(aggregation: Aggregation, type: pa.DataType | None) -> pa.DataType:
    """The type of the result column.

    >>> from headwater.language.aggregations import sum as total
    >>> result_type(total("price"), pa.decimal128(9, 2))
    Decimal128Type(decimal128(38, 2))
    """
    if aggregation.function == "user":
        return aggregation.parameter.result_type
    if aggregation.function == "quantile" and aggregation.parameter[1] != "linear":
        return plain_type(type)
    return _TYPES[FUNCTIONS[aggregation.function].gives](type)


def lower(aggregation: Aggregation, partials: Mapping[Op, PartialColumn], type: pa.DataType | None) -> pa.Array:
    """The aggregate of every row.

    >>> from headwater.language.aggregations import quantile
    >>> from headwater.engine.operators.runs.column import RunColumn
    >>> runs = RunColumn.of_rows([[1.0, 2.0], [5.0], []])
    >>> lower(quantile("load", 0.5), {Op("run", "load"): runs}, pa.float64()).to_pylist()
    [1.5, 5.0, None]
    """
    columns = [partials[op] for op in operators_of(aggregation, type)]
    if type is not None and pa.types.is_null(type) and not FUNCTIONS[aggregation.function].of_nothing:
        return pa.nulls(len(columns[0]), result_type(aggregation, type))
    return LOWERINGS[aggregation.function](aggregation, columns, type)


def lower_many(
    aggregations: Sequence[Aggregation], partials: Mapping[Op, PartialColumn], types: Mapping[str, pa.DataType]
) -> list[pa.Array]:
    """The aggregates of every row, one array per aggregation; all quantiles of a column are read in one pass.

    >>> from headwater.language.aggregations import quantile
    >>> from headwater.engine.operators.runs.column import RunColumn
    >>> wanted = [quantile("load", 0.0), quantile("load", 1.0)]
    >>> partials = {Op("run", "load"): RunColumn.of_rows([[1.0, 2.0]])}
    >>> [array.to_pylist() for array in lower_many(wanted, partials, {"load": pa.float64()})]
    [[1.0], [2.0]]
    """
    arrays: list[Any] = [None] * len(aggregations)
    together: dict[str, list[int]] = {}
    for i, aggregation in enumerate(aggregations):
        column = aggregation.column
        if column is not None and aggregation.function == "quantile" and aggregation.parameter[1] == "linear":
            together.setdefault(column, []).append(i)
        else:
            arrays[i] = lower(aggregation, partials, type_read(aggregation, types))
    for column, places in together.items():
        if len(places) == 1 or pa.types.is_null(types[column]):
            for i in places:
                arrays[i] = lower(aggregations[i], partials, types[column])
            continue
        runs: Any = partials[Op("run", column)]
        table = runs.quantiles(np.array([aggregations[i].parameter[0] for i in places], np.float64))
        for i, array in zip(places, number_arrays(table, runs.counts() > 0)):
            arrays[i] = array
    return arrays


def _total_type(type: pa.DataType) -> pa.DataType:
    """Sums and ranges: as wide as the kind of number goes."""
    if pa.types.is_decimal256(type):
        return pa.decimal256(76, type.scale)
    if pa.types.is_decimal(type):
        return pa.decimal128(38, type.scale)
    return INT64 if pa.types.is_integer(type) or pa.types.is_boolean(type) else FLOAT64


def _product_type(type: pa.DataType) -> pa.DataType:
    return INT64 if pa.types.is_integer(type) or pa.types.is_boolean(type) else FLOAT64


#: The types of results, by what `Function.gives` says.
_TYPES: Final[dict[str, Callable[[pa.DataType], pa.DataType]]] = {
    "int64": lambda _: INT64,
    "float64": lambda _: FLOAT64,
    "same": plain_type,
    "total": _total_type,
    "product": _product_type,
    "list": lambda type: pa.list_(plain_type(type)),
    "rows": pa.list_,
    "kept": lambda type: type.field(0).type,
}


def _sum(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    sums, valid = columns
    if isinstance(sums, ObjectColumn):
        return _decimals(sums.partials, _total_type(type))
    some = valid.counts > 0
    if pa.types.is_floating(type):
        return number_array(sums.to_float64(), some)
    totals, fits = sums.to_int64()
    return number_array(totals, fits & some)


def _decimals(numbers: Sequence[int | None], type: pa.DataType) -> pa.Array:
    """Whole numbers of the last digit as decimals; null where one has more digits than the type."""
    limit = 10**type.precision
    fitting = (None if n is None or abs(n) >= limit else scaled(n, type.scale) for n in numbers)
    return pa.array(list(fitting), type)


def _avg(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    sums, valid = columns
    if isinstance(sums, ObjectColumn):
        pairs = zip(sums.partials, valid.counts.tolist())
        # Python divides whole numbers exactly and rounds once.
        return pa.array([None if n is None else n / (count * 10**type.scale) for n, count in pairs], FLOAT64)
    return number_array(sums.mean(valid.counts), valid.counts > 0)


def _extreme(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    column = columns[0]
    if isinstance(column, ObjectColumn):
        return pa.array(column.partials, plain_type(type))
    values, present = column.values()
    return typed_array(values, present, type)


def _range(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    smallest, largest = columns
    if isinstance(smallest, ObjectColumn):
        return _decimal_ranges(smallest.partials, largest.partials, _total_type(type))
    low, present = smallest.values()
    high, _ = largest.values()
    if pa.types.is_floating(type):
        with np.errstate(invalid="ignore", over="ignore"):
            spread = high - low
        spread[np.isnan(spread)] = np.nan  # one NaN, also where infinities were subtracted
        return number_array(spread, present)
    spread = high - low
    # high >= low: a negative difference has wrapped around.
    return number_array(spread, present & (spread >= 0))


def _decimal_ranges(low: Sequence[Any], high: Sequence[Any], type: pa.DataType) -> pa.Array:
    pairs = zip(low, high)
    spreads = [None if a is None else unscaled(b, type.scale) - unscaled(a, type.scale) for a, b in pairs]
    return _decimals(spreads, type)


def _quantile(aggregation: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    (runs,) = columns
    q, method = aggregation.parameter
    counts = runs.counts()
    if method == "linear":
        return number_array(runs.quantiles(np.array([q], np.float64))[0], counts > 0)
    positions = np.maximum(counts - 1, 0) * float(q)
    rounded: Float64Array = {"lower": np.floor, "upper": np.ceil, "nearest": np.rint}[method](positions)
    return typed_array(runs.order_statistics(rounded.astype(np.int64)), counts > 0, type)


def _edge(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    values, present = columns[0].edge_values()
    return typed_array(values, present, type)


def _collect(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    (ordered,) = columns
    items = typed_array(ordered.values, np.ones(len(ordered.values), bool), plain_type(type))
    return pa.ListArray.from_arrays(pa.array(ordered.starts, pa.int32()), items)


def _distinct(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    values, starts = columns[0].distinct()
    items = typed_array(values, np.ones(len(values), bool), plain_type(type))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), items)


def _rows(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    top = columns[0] if columns[0].is_settled else columns[0].settled()
    arrays = [
        typed_array(kept.data, np.ones(len(kept.data), bool) if kept.valid is None else kept.valid, field.type)
        for kept, field in zip(top.columns, type)
    ]
    items = pa.StructArray.from_arrays(arrays, fields=list(type))
    return pa.ListArray.from_arrays(pa.array(top.starts, pa.int32()), items)


def _kept(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    """Of the one event of each row, the column that is asked for; what it is judged by comes before it in the partial."""
    top = columns[0] if columns[0].is_settled else columns[0].settled()
    there, kept = top.counts() > 0, top.columns[1]
    values, valid = np.zeros(len(top), kept.data.dtype), there.copy()
    values[there] = kept.data
    if kept.valid is not None:
        valid[there] = kept.valid
    return typed_array(values, valid, type.field(0).type)


def _variances(columns: Columns, type: pa.DataType) -> tuple[Float64Array, BoolArray]:
    sums, squares, valid = columns
    if isinstance(sums, ObjectColumn):
        return decimal_variances(sums.partials, squares.partials, valid.counts, type.scale)
    return variances(sums, squares, valid.counts)


def _stddev(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    values, known = _variances(columns, type)
    return number_array(np.sqrt(values), known)


def _product(_: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    (product,) = columns
    values, present = product.values()
    return number_array(values, present if product.is_float else present & ~product.overflowed())


def _approx_quantile(aggregation: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    (sketch,) = columns
    return number_array(sketch.quantiles(aggregation.parameter[0]), np.diff(sketch.starts) > 0)


def _user(aggregation: Aggregation, columns: Columns, type: pa.DataType) -> pa.Array:
    aggregate = aggregation.parameter
    partials = [
        column.partials if own.commutative else lifted_in_order(own, column, type)
        for own, column in zip(aggregate.operators, columns)
    ]
    return pa.array([aggregate.lower(*row) for row in zip(*partials)], aggregate.result_type)


def overflows(
    aggregation: Aggregation, array: pa.Array, partials: Mapping[Op, PartialColumn], type: pa.DataType
) -> int:
    """How many rows of a lowered aggregate are null although they have values: results beyond their type.

    >>> from headwater.language.aggregations import sum as total
    >>> from headwater.engine.operators.sums.exact_sum import SumColumn
    >>> from headwater.engine.operators.numeric import CountColumn
    >>> partials = {
    ...     Op("sum", "n"): SumColumn.from_python_ints([2**64, 0]),
    ...     Op("valid", "n"): CountColumn(np.array([2, 0])),
    ... }
    >>> overflows(total("n"), lower(total("n"), partials, pa.int64()), partials, pa.int64())
    1
    """
    if not FUNCTIONS[aggregation.function].overflows or array.null_count == 0:
        return 0
    column: Any = partials[operators_of(aggregation, type)[-1]]
    if isinstance(column, ObjectColumn):
        some = np.array([partial is not None for partial in column.partials], bool)
    elif isinstance(column, CountColumn):
        some = column.counts > 0
    else:
        some = column.values()[1]
    return int((some & np.asarray(array.is_null())).sum())


#: How each function is lowered: from the aggregation, its partial columns in the order of its operators, and the column's type.
LOWERINGS: Final[dict[str, Callable[[Aggregation, Columns, pa.DataType], pa.Array]]] = {
    "count": lambda _, columns, type: number_array(columns[0].counts),
    "sum": _sum,
    "avg": _avg,
    "min": _extreme,
    "max": _extreme,
    "range": _range,
    "quantile": _quantile,
    "mode": lambda _, columns, type: typed_array(columns[0].modes(), columns[0].counts() > 0, type),
    "count_distinct": lambda _, columns, type: number_array(columns[0].count_distinct()),
    "first": _edge,
    "last": _edge,
    "collect": _collect,
    "distinct": _distinct,
    "top": _rows,
    "rows": _rows,
    "max_by": _kept,
    "min_by": _kept,
    "variance": lambda _, columns, type: number_array(*_variances(columns, type)),
    "stddev": _stddev,
    "product": _product,
    "geometric_mean": lambda _, columns, type: number_array(*columns[0].geometric_mean()),
    "approx_distinct": lambda _, columns, type: number_array(columns[0].estimates()),
    "approx_quantile": _approx_quantile,
    "user": _user,
}


# --- values as Arrow arrays ---


def number_array(values: np.ndarray[Any, Any], valid: BoolArray | None = None) -> pa.Array:
    """An int64 or float64 array without a copy; null where ``valid`` says so.

    >>> number_array(np.array([1, 2]), np.array([True, False])).to_pylist()
    [1, None]
    """
    type_ = pa.float64() if values.dtype.kind == "f" else pa.int64()
    nulls = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(type_, len(values), [nulls, pa.py_buffer(np.ascontiguousarray(values))])


def number_arrays(table: np.ndarray[Any, Any], valid: BoolArray) -> list[pa.Array]:
    """Each row of a table of floats as an array, all with the same nulls.

    A thousand quantiles make a thousand columns: cutting one large array is three times as fast as making each.
    """
    if not valid.all() or table.base is None or table.base.ndim != 1 or len(table) == 0:
        return [number_array(row, valid) for row in table]
    whole = number_array(table.base)
    stride = table.strides[0] // table.itemsize
    return [whole.slice(i * stride, table.shape[1]) for i in range(len(table))]


def typed_array(values: np.ndarray[Any, Any] | Sequence[object], valid: BoolArray, type_: pa.DataType) -> pa.Array:
    """Values as the engine keeps them (int64, float64 or objects) in the column's own type.

    >>> typed_array(np.array([0, 1]), np.array([True, True]), pa.bool_()).to_pylist()
    [False, True]
    """
    type_ = plain_type(type_)
    if not valid.any():
        # Without any value the array may even be of another kind: nothing told it which.
        return pa.nulls(len(values), type_)
    if not isinstance(values, np.ndarray) or values.dtype == object:
        return pa.array([value if known else None for value, known in zip(values, valid)], type_)
    if pa.types.is_boolean(type_):
        return pa.array(values.astype(np.bool_), mask=~valid)
    numbers = number_array(values, valid)
    return numbers if numbers.type == type_ else array_of_integers(numbers, type_)
