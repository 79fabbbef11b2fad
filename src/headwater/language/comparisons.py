"""Comparing values: one total order per kind of value, the same for one row and for arrays.

Numbers compare by their exact value, whatever their types; NaN equals itself and is larger than every other number.
Text compares as UTF-8 bytes, which is the order of its code points. A timestamp without a zone is in UTC. Values of
different kinds cannot be compared: the result is null.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

#: The comparisons, each as what it says about the sign of "left minus right".
COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: The comparison that is true exactly where this one is false (the order is total, NaN included).
NEGATED: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
#: The comparison with its sides exchanged.
FLIPPED: Final = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

_KINDS: Final[dict[type, str]] = {
    bool: "number",
    int: "number",
    float: "number",
    Decimal: "number",
    str: "text",
    bytes: "bytes",
    datetime.datetime: "timestamp",
    datetime.date: "date",
}


def compare(op: str, left: object, right: object) -> bool | None:
    """One comparison of two plain values.

    >>> nan = float("nan")
    >>> compare("<", 1, nan), compare("==", nan, nan), compare("==", 1, None), compare("<", 1, "a")
    (True, True, None, None)
    >>> compare("==", 2**53 + 1, float(2**53))  # exact, although Python's float cannot tell them apart
    False
    """
    kind = kind_of(left)
    if kind is None or kind != kind_of(right):
        return None
    result: bool = COMPARISONS[op](_sign(left, right, kind), 0)
    return result


def kind_of(value: object) -> str | None:
    """What a value can be compared with: values of its kind. None for null and for what has no order here.

    >>> kind_of(True), kind_of(2.5), kind_of("a"), kind_of(None), kind_of([1])
    ('number', 'number', 'text', None, None)
    """
    kind = _KINDS.get(type(value))
    if kind is None and value is not None:
        # A subclass (an enum of text, pandas' timestamps) counts as the type it extends.
        kind = next((kind for base, kind in _KINDS.items() if isinstance(value, base)), None)
    return kind


def is_nan(value: Any) -> bool:
    """The value is NaN, the one number that is not equal to itself in Python."""
    return bool(value != value)


def as_text(value: object) -> str:
    """A value as a pattern sees it: text as it is, bools as true, false, bytes as UTF-8, the rest as Python writes it.

    >>> as_text("a"), as_text(True), as_text(1.0)
    ('a', 'true', '1.0')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _sign(left: Any, right: Any, kind: str) -> int:
    if kind == "number":
        left_nan, right_nan = is_nan(left), is_nan(right)
        if left_nan or right_nan:
            return left_nan - right_nan
    elif kind == "timestamp":
        left, right = _in_utc(left), _in_utc(right)
    return int(left > right) - int(left < right)


def _in_utc(value: datetime.datetime) -> datetime.datetime:
    return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value


def bound_below(op: str, literal: Any, below: Any) -> tuple[str, Any] | bool:
    """The same comparison with ``below``, the largest value of a column's type that is at most the literal.

    >>> bound_below("<", 2.5, 2), bound_below("==", 2.5, 2)
    (('<=', 2), False)
    """
    if below == literal:
        return op, below
    # Nothing in the column equals the literal, and nothing lies between `below` and it.
    if op in ("==", "!="):
        return op == "!="
    return ("<=", below) if op in ("<", "<=") else (">", below)


def float_below(literal: Any) -> float:
    """The largest float that is at most a number of any kind."""
    try:
        near = float(literal)
    except OverflowError:
        near = math.inf if literal > 0 else -math.inf
    return math.nextafter(near, -math.inf) if near > literal else near
