"""The one door to numba: `njit` with the project's settings, and the few machine instructions NumPy has no name for.

Kernels are compiled on first use and cached on disk beside their module, so a fresh process does not compile. Numba
looks only at a kernel's own file when it decides whether the cache is stale: after editing a kernel that other *files*
call, delete the ``__pycache__`` folders.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def njit(kernel: Kernel) -> Kernel:
    """Compile ``kernel`` on first use, with the result cached on disk and the interpreter lock released while it runs.

    Division by zero follows NumPy (no exception), which keeps loops free of a hidden branch.

    >>> @njit
    ... def total(values):
    ...     result = 0
    ...     for value in values:
    ...         result += value
    ...     return result
    >>> total((1, 2, 3))
    6
    """
    # A kernel typed at the prompt has no file to keep its cache beside.
    cacheable = os.path.exists(kernel.__code__.co_filename)
    return cast(Kernel, numba.njit(cache=cacheable, nogil=True, error_model="numpy")(kernel))


def _as_intrinsic(typing: Callable[..., Any]) -> Any:
    return intrinsic(typing)


@_as_intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:
    """How many bits above the highest one of a uint64 are zero (64 for zero). Only inside kernels."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], cgutils.false_bit)

    return types.uint64(types.uint64), generate
