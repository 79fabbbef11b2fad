"""Users' own code: shared operators, aggregates built from them, and import paths that name both.

An `Operator` turns values into a partial (`lift`) and joins partials (`combine`, with `identity` as the partial of
nothing). An `Aggregate` lowers the partials of its operators to one value. Two aggregates that name the same operator
share its work. Code never travels: a description names it by import path ("package.module:name").
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import Problem, QueryError, shown
from headwater.language import checks

#: What to do about code that has no import path.
PATH_FORM: Final = (
    "define it at the top level of an importable module, so that 'package.module:name' finds it; for hw.read and batch "
    "hw.aggregate hw.ship(...) of it will do"
)
#: The attribute of a function that says under which path Spark carries it (`spark/shipped.py`).
SHIPPED_AS: Final = "__headwater_shipped__"

FLOAT64: Final = pa.float64()


def _json_bytes(partial: object) -> bytes:
    """The default byte form of a partial: compact JSON, canonical for numbers, text and lists of them."""
    return json.dumps(partial, separators=(",", ":"), sort_keys=True, default=_plain).encode()


def _plain(value: object) -> object:
    """NumPy's scalars and arrays as plain Python: a lift that says `values.sum()` should just work."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"the partial {value!r} is not JSON; give the operator to_bytes and from_bytes")


class UserCode:
    """What operators and aggregates of users have in common: they are equal by their fields, and copied by import path."""

    __slots__ = ()
    name: str
    path: str | None

    def _id(self) -> tuple[object, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, UserCode) and self._id() == other._id())

    def __hash__(self) -> int:
        return hash((self.name, self.path))

    def __repr__(self) -> str:
        """Kind and name: functions have no form in which anybody would read them.

        >>> aggregate_of("spread", np.ptp, max, float, 0.0)
        <Aggregate 'spread'>
        """
        return f"<{type(self).__name__} {self.name!r}>"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """How a copy is made: by name where there is one, so that lambdas are no hindrance and the copy is the original."""
        path = path_of(self)
        return (load_path, (path,)) if path is not None else (type(self), UserCode._id(self))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Operator(UserCode):
    """A shared operator of the user's own: `lift` many values, `combine` two partials, `identity` for none.

    `lift` gets the values (nulls left out) as an array in event order. `combine(a, b)` must be associative, and
    commutative unless `commutative=False`, in which case a is always before b. `identity` is the partial of nothing or
    a function that makes it.

    >>> total = Operator("total", lift=lambda values: float(values.sum()), combine=lambda a, b: a + b, identity=0.0)
    >>> total.combine(total.lift(np.array([1.0, 2.0])), total.empty())
    3.0
    """

    name: str
    lift: Callable[[npt.NDArray[Any]], Any]
    combine: Callable[[Any, Any], Any]
    identity: Any
    commutative: bool = True
    to_bytes: Callable[[Any], bytes] = _json_bytes
    from_bytes: Callable[[bytes], Any] = json.loads
    path: str | None = None

    def empty(self) -> Any:
        """A fresh partial of nothing."""
        return self.identity() if callable(self.identity) else self.identity

    def problems(self) -> Iterator[Problem]:
        """Everything wrong with the operator as it was written."""
        yield from checks.text("name", self.name, "name the operator with text")
        yield from _function_problems(self, "lift", "combine", "to_bytes", "from_bytes")
        yield from checks.flag("commutative", self.commutative)

    def _id(self) -> tuple[object, ...]:
        # The identity is left out: a list there would make the operator unhashable, and the functions say enough.
        return (self.name, self.path, self.lift, self.combine, self.commutative, self.to_bytes, self.from_bytes)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Aggregate(UserCode):
    """An aggregate of the user's own: the partials of its operators, lowered to one value.

    `lower` gets one partial per operator, in their order, and returns a value of `result_type` (None: null).

    >>> total = Operator("total", lambda values: float(values.sum()), lambda a, b: a + b, 0.0)
    >>> count = Operator("count", len, lambda a, b: a + b, 0)
    >>> mean = Aggregate("mean", (total, count), lower=lambda total, count: total / count if count else None)
    >>> mean.lower(6.0, 3)
    2.0
    """

    name: str
    operators: tuple[Operator, ...]
    lower: Callable[..., Any]
    result_type: pa.DataType = FLOAT64
    path: str | None = None

    def problems(self) -> Iterator[Problem]:
        """Everything wrong with the aggregate as it was written."""
        yield from checks.text("name", self.name, "name the aggregate with text")
        operators: object = self.operators
        if not (isinstance(operators, tuple) and operators and all(isinstance(own, Operator) for own in operators)):
            yield Problem("operators", operators, "give a tuple of one or more Operators")
        else:
            yield from (problem.inside(f"operator {own.name!r}") for own in operators for problem in own.problems())
        yield from _function_problems(self, "lower")
        if not isinstance(self.result_type, pa.DataType):
            yield Problem("result_type", self.result_type, "give an Arrow type, such as pa.float64()")


def _function_problems(code: object, *fields: str) -> Iterator[Problem]:
    for field in fields:
        if not callable(getattr(code, field)):
            yield Problem(field, getattr(code, field), "give a function")


def aggregate_of(
    name: str,
    lift: Callable[[npt.NDArray[Any]], Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any],
    identity: Any,
    commutative: bool = True,
    result_type: pa.DataType = FLOAT64,
    path: str | None = None,
) -> Aggregate:
    """An aggregate with one operator of its own.

    >>> longest = aggregate_of("longest", lambda words: max(map(len, words)), max, int, 0, result_type=pa.int64())
    >>> longest.lower(longest.operators[0].lift(np.array(["a", "abc"], dtype=object)))
    3
    """
    own = Operator(name, lift, combine, identity, commutative)
    return Aggregate(name, (own,), lower, result_type, path)


def load_path(path: str) -> Any:
    """The object an import path names.

    >>> load_path("math:fsum")([0.5, 0.5])
    1.0
    >>> load_path("math:fsun")
    Traceback (most recent call last):
    headwater.errors.QueryError: import path is 'math:fsun': module 'math' has no 'fsun'
    """
    found = find_path("import path", path)
    if isinstance(found, Problem):
        raise QueryError.of(found)
    return found


def find_path(field: str, path: str) -> Any | Problem:
    """The object an import path names, or the problem with the path."""
    module_name, _, name = path.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *name.split("."))):
        return Problem(field, path, "write 'package.module:name'")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # whatever a module does when it is imported
        return Problem(field, path, f"module {module_name!r} cannot be imported ({error})")
    for part in name.split("."):
        if not hasattr(found, part):
            return Problem(field, path, f"module {module_name!r} has no {name!r}")
        found = getattr(found, part)
        if isinstance(found, ModuleType):
            # Who may name one module could reach all that it imports.
            return Problem(field, path, f"{part!r} is a module; name it itself, 'package.module:name'")
    return found


def is_within(path: str, modules: Collection[str]) -> bool:
    """Whether an import path names something of these modules, or of modules in these packages.

    >>> is_within("shop.prices:spread", {"shop"}), is_within("shopping:spread", {"shop"})
    (True, False)
    """
    module = str(path).partition(":")[0]
    return any(module == one or module.startswith(f"{one}.") for one in modules)


def code_problems(field: str, code: object) -> tuple[Problem, ...]:
    """A function, or the import path of one that can be imported here.

    >>> code_problems("function", "math.fsum")[0].text("cut")
    "query 'cut': function is 'math.fsum': write 'package.module:name'"
    """
    found = find_path(field, code) if isinstance(code, str) else code
    if isinstance(found, Problem):
        return (found,)
    return () if callable(found) else (Problem(field, code, "give a function or its path, 'package.module:name'"),)


def path_of(code: object) -> str | None:
    """The import path under which another process finds this very object, or None if there is none.

    A function knows its own name. An `Aggregate` or `Operator` does not, so it is looked for in the modules where its
    functions were written.

    >>> import math
    >>> path_of(math.fsum), path_of(lambda values: values)
    ('math:fsum', None)
    """
    if isinstance(code, Aggregate | Operator):
        if code.path is not None:
            return code.path
        functions = (code.lower, *(o.lift for o in code.operators)) if isinstance(code, Aggregate) else (code.lift,)
        modules = [getattr(function, "__module__", None) for function in functions]
        return next(filter(None, (_name_in(module, code) for module in modules)), None)
    shipped = getattr(code, SHIPPED_AS, None)
    if isinstance(shipped, str):
        return shipped
    module, name = getattr(code, "__module__", None), getattr(code, "__qualname__", None)
    # A local function or a lambda has "<locals>" or "<lambda>" in its name, and no address.
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__" or "<" in name:
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is code else None


def checked_path(field: str, code: object) -> str | Problem:
    """The import path of code that is to be written down, or what is wrong: another process must find the same."""
    path = path_of(code)
    if path is None:
        return Problem(field, code, PATH_FORM)
    found = find_path(field, path)
    if isinstance(found, Problem):
        return found
    return path if found == code else Problem(field, path, f"something else has this name: {shown(found)}")


def _name_in(module: str | None, code: object) -> str | None:
    # Another process has another __main__: a name there is no address.
    if module is None or module == "__main__" or module not in sys.modules:
        return None
    names = [name for name, value in vars(sys.modules[module]).items() if value is code]
    return f"{module}:{min(names)}" if names else None
