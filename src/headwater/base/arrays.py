"""Names for the array types that the engine passes around, and the form in which kernels take them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int64Array: TypeAlias = NDArray[np.int64]
Int32Array: TypeAlias = NDArray[np.int32]
Float64Array: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]


def frozen(array: NDArray[Any], dtype: type) -> NDArray[Any]:
    """A contiguous read-only view, or a copy where there is no other way.

    Arrow's buffers are read-only and NumPy's are not: kernels that take their events read-only are compiled once for both.

    >>> frozen(np.arange(3), np.int64).flags.writeable
    False
    """
    view: NDArray[Any] = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
