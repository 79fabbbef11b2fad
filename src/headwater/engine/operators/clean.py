"""One zero and one NaN: what SEMANTICS asks of floats before they are compared or shown."""

from __future__ import annotations

import numpy as np

from headwater.base.arrays import Float64Array, Int64Array, frozen
from headwater.base.jit import njit
from headwater.engine.operators.sums.blocks import INFINITY_BITS, MAGNITUDE

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
