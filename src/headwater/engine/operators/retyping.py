"""Partials of a column whose type has grown: as if its values had been of the wider type from the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from headwater.base.packing import order_bits
from headwater.engine.intake.chunk import blank
from headwater.engine.intake.widening import Widening, widened_data
from headwater.engine.operators.events.ordered import OrderedColumn
from headwater.engine.operators.events.tops import Kept, TopColumn
from headwater.engine.operators.extremes import MinMaxColumn
from headwater.engine.operators.numeric import CountColumn
from headwater.engine.operators.objects import ObjectColumn
from headwater.engine.operators.operator import Op
from headwater.engine.operators.partials import PartialColumn
from headwater.engine.operators.products import ProductColumn
from headwater.engine.operators.runs.column import RunColumn
from headwater.engine.operators.runs.part import RunPart
from headwater.engine.operators.sums.exact_sum import SumColumn


def retyped(
    partials: Mapping[Op, PartialColumn], changes: Mapping[str, Widening], template: Mapping[Op, PartialColumn]
) -> dict[Op, PartialColumn]:
    """The partials of rows after columns have grown; ``template``: partials of the new types without rows.

    >>> partials = {Op("max", "load"): MinMaxColumn.of(np.array([3]), largest=True, is_float=False)}
    >>> grown = retyped(partials, {"load": Widening(pa.int64(), pa.float64())}, {})
    >>> grown[Op("max", "load")].values()[0]
    array([3.])
    """
    found = dict(partials)
    for op, column in partials.items():
        if isinstance(column, TopColumn):
            found[op] = _grown_top(column, [changes.get(name) for name in op.columns])
            continue
        change = changes.get(op.column or "")
        if change is None:
            continue
        if change.old is None:
            none = np.zeros(len(column), np.int64)
            found[op] = template[op].combine_ranges(none, none)
        else:
            found[op] = _grown(op, column, change.old, change.new, partials)
    return found


def _grown(
    op: Op, column: Any, old: pa.DataType, new: pa.DataType, partials: Mapping[Op, PartialColumn]
) -> PartialColumn:
    match column:
        case RunColumn():
            parts = [RunPart(widened_data(p.values, new), p.starts, p.first, p.last) for p in column.parts]
            return RunColumn(parts, column.part, column.place)
        case OrderedColumn():
            return replace(column, values=widened_data(column.values, new))
        case ProductColumn() if not column.is_float and not pt.is_integer(new):
            return column.as_float()
        case MinMaxColumn() if not column.is_float and pt.is_floating(new):
            values, present = column.values()
            return MinMaxColumn.of(order_bits(values.astype(np.float64)), column.largest, True, present)
        case MinMaxColumn() if pt.is_decimal(new):
            values, present = column.values()
            found = zip(values.tolist(), present.tolist(), strict=True)
            return ObjectColumn(op.kind, [Decimal(value) if known else None for value, known in found])
        case SumColumn() if pt.is_decimal(new):
            counts = partials[Op("valid", op.column)]
            assert isinstance(counts, CountColumn)
            return _decimal_sums(op.kind, column, (counts.counts > 0).tolist(), new.scale)
        case ObjectColumn() if op.kind in ("sum", "sumsq"):
            more = 10 ** ((new.scale - old.scale) * (2 if op.kind == "sumsq" else 1))
            return ObjectColumn(op.kind, [None if n is None else n * more for n in column.partials])
    return column  # type: ignore[no-any-return]


def _grown_top(column: TopColumn, changes: Sequence[Widening | None]) -> TopColumn:
    """What was kept of each column; where it held no value yet, nothing of the new type."""
    grown = []
    for kept, change in zip(column.columns, changes, strict=True):
        if change is None:
            grown.append(kept)
        elif change.old is None:
            nothing = blank(change.new, len(kept.data))
            grown.append(Kept(nothing.data, nothing.valid))
        else:
            grown.append(Kept(widened_data(kept.data, change.new), kept.valid))
    return replace(column, columns=tuple(grown))


def _decimal_sums(kind: str, sums: SumColumn, known: list[bool], scale: int) -> ObjectColumn:
    """Sums of integers as those of decimals: whole numbers of the last digit, or of its square."""
    unit = 10 ** (scale * (2 if kind == "sumsq" else 1))
    numbers, exponent = sums.to_python_ints()
    totals = [number << exponent if exponent >= 0 else number >> -exponent for number in numbers]
    return ObjectColumn(kind, [total * unit if some else None for total, some in zip(totals, known, strict=True)])
