"""A shared operator as a description, and what all partials of floats have in common: one zero and one NaN.

Aggregates name the operators they need; equal descriptions are computed once, however many aggregates and queries ask.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headwater.base.arrays import Float64Array, Int64Array, frozen
from headwater.base.jit import njit
from headwater.engine.operators.sums.blocks import INFINITY_BITS, MAGNITUDE


@dataclass(frozen=True, slots=True)
class Op:
    """One shared operator: its kind, the column it reads (none for ``count``) and what else decides its partials.

    Kinds: count valid sum sumsq product min max run ordered first last top hll ddsketch user.

    >>> Op("sum", "load") == Op("sum", "load"), Op("sum", "load") == Op("sum", "price")
    (True, False)
    """

    kind: str
    column: str | None = None
    parameter: Hashable = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it reads: of the best events also those that are kept besides."""
        if self.column is None:
            return ()
        return (self.column, *self.parameter.kept) if isinstance(self.parameter, Best) else (self.column,)


class Best(NamedTuple):
    """Which events ``top`` keeps: the ``k`` with the largest values of its column, or smallest; k = 0: all, in their order.

    ``ties``: with the last of them all others of its value. ``kept``: the columns that are kept besides.
    """

    k: int
    ties: bool
    largest: bool
    kept: tuple[str, ...] = ()


#: Every group counts its events: a row without any is no row.
COUNT = Op("count")


NEGATIVE_ZERO = np.int64(-(2**63))


@njit
def _needs_cleaning(bits: Int64Array) -> bool:
    """Whether any float is -0.0 or NaN."""
    found = False
    for i in range(len(bits)):
        found |= bits[i] == NEGATIVE_ZERO
        found |= (bits[i] & MAGNITUDE) > INFINITY_BITS
    return found


def clean_floats(data: Float64Array) -> Float64Array:
    """The same numbers with one zero and one NaN; without a copy where there is nothing to do.

    >>> clean_floats(np.array([-0.0, 1.0]))
    array([0., 1.])
    """
    if not _needs_cleaning(frozen(data, np.float64).view(np.int64)):
        return data
    cleaned = data + 0.0
    cleaned[np.isnan(cleaned)] = np.nan
    return cleaned
