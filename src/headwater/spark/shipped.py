"""Code that Spark carries: what `hw.ship` was given, by the name under which queries speak of it.

An aggregate or a function of a notebook's cell, of ``__main__`` or of another function has no import path by which a worker could
load it. Shipped, it has one in this module, and what it is, pickled, goes with every task of a batch. Nothing else loads pickles:
checkpoints, links and files name import paths only, and this one leads nowhere outside the batch.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from headwater.errors import DataError, QueryError, shown
from headwater.language.files.queries import named_code, to_json
from headwater.language.query import Query
from headwater.language.user_code import SHIPPED_AS, Aggregate, Operator, path_of

T = TypeVar("T")
#: By name, in the order in which they were shipped: an aggregate comes behind its operators.
_things: dict[str, Any] = {}
_pickled: dict[str, bytes] = {}


def ship(thing: T) -> T:
    """Let Spark carry an own aggregate, operator or function to its workers, for `hw.read` and `hw.aggregate` of a batch.

    Returns what queries have to be given. What has an import path needs none of this, and is returned as it is.
    """
    if path_of(thing) is not None:
        return thing
    if isinstance(thing, Aggregate):
        return _shipped(replace(thing, operators=tuple(map(ship, thing.operators))))
    if not isinstance(thing, Operator) and not callable(thing):
        raise DataError(f"hw.ship of {shown(thing)}: give an own aggregate, an operator or a function")
    return _shipped(thing)


def _shipped(thing: T) -> T:
    from pyspark import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(thing)  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever a user's objects do
        raise DataError(f"hw.ship of {shown(thing)}: it cannot be pickled ({error})") from error
    name = f"s{hashlib.sha256(data).hexdigest()[:16]}"
    _things[name], _pickled[name] = _named(thing, name), data
    return _things[name]  # type: ignore[no-any-return]


def _named(thing: Any, name: str) -> Any:
    """The same under its path."""
    path = f"{__name__}:{name}"
    if isinstance(thing, Aggregate | Operator):
        return replace(thing, path=path)
    try:
        setattr(thing, SHIPPED_AS, path)
    except (AttributeError, TypeError) as error:
        raise DataError(f"hw.ship of {shown(thing)}: give a function that is written in Python") from error
    return thing


def carried() -> dict[str, bytes]:
    """All that was shipped, as tasks get it."""
    return dict(_pickled)


def install(pickled: Mapping[str, bytes]) -> None:
    """In a task: what was shipped is there under its path."""
    for name, data in pickled.items():
        if name not in _things:
            _things[name], _pickled[name] = _named(pickle.loads(data), name), data


def refuse_shipped(queries: Iterable[Query], door: str) -> None:
    """Refuse queries whose code Spark would have to carry where it cannot."""
    for query in queries if _things else ():
        if any(path.startswith(f"{__name__}:") for path in named_code(to_json([query]))):
            raise QueryError(
                f"query {query.name!r}: it has code that was handed to hw.ship, which is for hw.read and hw.aggregate of a batch;"
                f" {door} keeps a checkpoint that outlives this process, and nothing pickled is kept there: define the code in a"
                " module that is installed on all machines"
            )


def __getattr__(name: str) -> Any:
    try:
        return _things[name]
    except KeyError:
        raise AttributeError(f"nothing was shipped as {name!r} here") from None
