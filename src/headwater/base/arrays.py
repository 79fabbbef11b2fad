"""Array types that engine and protocols pass around, the form in which kernels take them, and large arrays from Arrow's pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import Field, replace
from typing import Any, ClassVar, Self, TypeAlias

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


class RowArrays:
    """A dataclass of arrays with one entry per row each; None stands for an array that is not there.

    Other fields are the same for all rows.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """The arrays, by the names of their fields."""
        for name in self.__dataclass_fields__:
            if isinstance(value := getattr(self, name), np.ndarray):
                yield name, value

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.__dataclass_fields__))))

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays."""
        return sum(array.nbytes for _, array in self.arrays())

    def take(self, indices: Int64Array) -> Self:
        """The rows at ``indices``."""
        return replace(self, **{name: array.take(indices, axis=0) for name, array in self.arrays()})

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """All rows, one part after the other; at least one part, and all have the same arrays."""
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name, _ in parts[0].arrays()}
        return replace(parts[0], **joined)


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
