"""Where compiled kernels are kept on disk: read wherever they can be read, written where somebody may write.

Numba's own cache insists on a folder that it can write to. But an image is warmed by one user and read by another, from a
file system on which nobody writes; there kernels are read where they are, and what is missing is compiled in memory.

A kernel for one signature, processor and Python is one file, written at once or not at all: processes that compile at the same
time do not meet. It is stale when its own source has changed, or that of a kernel that it calls, or a constant that it reads.
"""

from __future__ import annotations

import os
import pickle
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
from numba.core import config
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

#: All kernels of this process, by module and name.
KERNELS: dict[str, Any] = {}
#: How many compiled kernels this process has written, by folder.
WRITTEN: dict[str, int] = {}
SUFFIX = ".kernel"


class KernelCache:
    """The compiled forms of one kernel on disk; numba's dispatchers ask it before they compile, and give it what they compiled.

    ``door`` is the file whose source says how all kernels are compiled.
    """

    def __init__(self, kernel: FunctionType, door: str) -> None:
        self._kernel = kernel
        self._door = door

    @property
    def folders(self) -> list[str]:
        """Where it may be, in the order of asking."""
        return folders(self._kernel.__code__.co_filename)

    @property
    def cache_path(self) -> str | None:
        """Where it is written; None where nobody can write."""
        return next(filter(_can_write, self.folders), None)

    @cached_property
    def stamp(self) -> str:
        """What the compiled form depends on. Asked for when all modules are loaded: a kernel may stand before one it calls."""
        parts = [numba.__version__, _source("headwater.base.jit", self._door), *_parts(self._kernel, set())]
        return sha256("\0".join(parts).encode()).hexdigest()

    def files(self) -> list[str]:
        """The files that hold a compiled form of it, stale ones and those of other processors too."""
        found = []
        for folder in self.folders:
            with suppress(OSError):
                found += [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(self._stem)]
        return found

    # --- what numba's dispatcher calls ---

    def load_overload(self, signature: Any, target_context: Any) -> CompileResult | None:
        target_context.refresh()
        name = self._name(signature, target_context.codegen())
        for folder in self.folders:
            # Whatever is wrong with a file, it is compiled again.
            with suppress(Exception), open(os.path.join(folder, name), "rb") as file:
                stamp, held, data = pickle.load(file)
                if stamp == self.stamp and held == signature:
                    return CompileResult._rebuild(target_context, *data)
        return None

    def save_overload(self, signature: Any, compiled: CompileResult) -> None:
        if compiled.library.has_dynamic_globals:
            return  # it holds addresses of this process
        data = dumps((self.stamp, signature, compiled._reduce()))
        for folder in self.folders:
            with suppress(OSError):
                os.makedirs(folder, exist_ok=True)
                _replace(os.path.join(folder, self._name(signature, compiled.codegen)), data)
                WRITTEN[folder] = WRITTEN.get(folder, 0) + 1
                return

    def flush(self) -> None:
        """Forget what is on disk, as far as it can be removed."""
        for file in self.files():
            with suppress(OSError):
                os.unlink(file)

    @property
    def _stem(self) -> str:
        return f"{self._kernel.__module__}.{self._kernel.__name__}-"

    def _name(self, signature: Any, codegen: Any) -> str:
        what = f"{signature} {codegen.magic_tuple()} {sys.version_info[:2]}"
        return f"{self._stem}{sha256(what.encode()).hexdigest()[:24]}{SUFFIX}"


def keep(dispatcher: Any, door: str) -> None:
    """Give a kernel its cache. One that was typed at the prompt has no source, so it has none."""
    kernel = dispatcher.py_func
    if not kernel.__code__.co_filename.startswith("<"):
        dispatcher._cache = KernelCache(kernel, door)
        KERNELS[f"{kernel.__module__}.{kernel.__name__}"] = dispatcher


def with_inner(kernels: Iterable[FunctionType]) -> set[str]:
    """The names of these kernels and of all that they call, which are compiled with them."""
    seen: set[str] = set()
    for kernel in kernels:
        for _ in _parts(kernel, seen):
            pass
    return seen


def folders(file: str) -> list[str]:
    """Where the compiled kernels of a source file may be: as NUMBA_CACHE_DIR says, beside it, at home."""
    found = [str(config.CACHE_DIR)] if config.CACHE_DIR else []
    # Beside a source in a zip there is nothing.
    if os.path.isdir(os.path.dirname(file)):
        found.append(os.path.join(os.path.dirname(file), "__pycache__"))
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # Without a home "~" stays as it is, and would be a folder of that name.
    return [*found, os.path.join(home, "headwater")] if os.path.isabs(home) else found


def _can_write(folder: str) -> bool:
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
    return os.access(folder, os.W_OK | os.X_OK)


def _replace(path: str, data: bytes) -> None:
    """Write a file at once or not at all."""
    part = f"{path}.{uuid.uuid4().hex[:16]}"
    try:
        with open(part, "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise


@cache
def _source(module: str, file: str) -> str:
    """The text of a module, from a folder or a zip; where there is none, its name has to do."""
    try:
        return str(sys.modules[module].__loader__.get_data(file).decode())  # type: ignore[union-attr]
    except (AttributeError, KeyError, OSError):
        return file


def _parts(kernel: FunctionType, seen: set[str]) -> Iterator[str]:
    """The sources of a kernel and of all kernels it calls, and the constants they read."""
    name = f"{kernel.__module__}.{kernel.__name__}"
    if name in seen:
        return
    seen.add(name)
    yield name
    yield _source(kernel.__module__, kernel.__code__.co_filename)
    for used, value in _used(kernel):
        if isinstance(value, int | float | str | bytes | tuple):
            yield f"{used}={value!r}"
        elif isinstance(inner := getattr(value, "py_func", None), FunctionType):
            yield from _parts(inner, seen)


def _used(kernel: FunctionType) -> Iterator[tuple[str, object]]:
    """What a kernel may read, by name: of its own module, and of modules that it names (``blocks.row_span``)."""
    names = sorted(set(_names(kernel.__code__)))
    for name in names:
        value = kernel.__globals__.get(name)
        yield name, value
        if isinstance(value, ModuleType):
            yield from ((f"{name}.{each}", getattr(value, each, None)) for each in names)


def _names(code: CodeType) -> Iterable[str]:
    """The names that a function reads from its module, those of functions inside it too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
