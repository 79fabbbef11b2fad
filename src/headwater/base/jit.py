"""The one door to numba: `njit` with the project's settings, and the few machine instructions NumPy has no name for.

Kernels are compiled on first use and kept on disk (`headwater.kernels`), so a fresh process does not compile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic

from headwater.kernels import notice as _notice  # noqa: F401  whoever compiles says so
from headwater.kernels.cache import KERNELS, WRITTEN, keep, with_inner

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def njit(kernel: Kernel) -> Kernel:
    """Compile ``kernel`` on first use, with the result kept on disk and the interpreter lock released while it runs.

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
    dispatcher = numba.njit(nogil=True, error_model="numpy")(kernel)
    keep(dispatcher, __file__)
    return cast(Kernel, dispatcher)


@dataclass(frozen=True, slots=True)
class CompiledForms:
    """How many kernels there are, and those that this process has not called; how many it compiled, and wrote to which folder."""

    kernels: int
    missing: tuple[str, ...]
    compiled: int
    written: dict[str, int]


def compiled_forms() -> CompiledForms:
    """What there is of all kernels whose modules are loaded. What lies on disk says nothing of this process."""
    called = (each.py_func for each in KERNELS.values() if each.signatures)
    missing = tuple(sorted(KERNELS.keys() - with_inner(called)))
    compiled = sum(sum(each.stats.cache_misses.values()) for each in KERNELS.values())
    return CompiledForms(len(KERNELS), missing, compiled, dict(WRITTEN))


def _as_intrinsic(typing: Callable[..., Any]) -> Any:
    return intrinsic(typing)


@_as_intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:
    """How many bits above the highest one of a uint64 are zero (64 for zero). Only inside kernels."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], cgutils.false_bit)

    return types.uint64(types.uint64), generate
