"""Array types that engine and protocols pass around, the form in which kernels take them, and large arrays from Arrow's pool."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.typing import NDArray

Int64Array: TypeAlias = NDArray[np.int64]
Int32Array: TypeAlias = NDArray[np.int32]
Float64Array: TypeAlias = NDArray[np.float64]
UInt8Array: TypeAlias = NDArray[np.uint8]
UInt64Array: TypeAlias = NDArray[np.uint64]
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


#: Below this the C library reuses memory by itself.
LARGE_BYTES = 1 << 17


def empty(count: int, dtype: npt.DTypeLike) -> np.ndarray[Any, Any]:
    """An uninitialised array of numbers, like ``np.empty``.

    >>> empty(3, np.int64).shape
    (3,)
    """
    wanted = np.dtype(dtype)
    if count * wanted.itemsize < LARGE_BYTES or wanted.hasobject:
        return np.empty(count, wanted)
    return np.frombuffer(pa.allocate_buffer(count * wanted.itemsize), wanted)
