"""How values stand in JSON, by their types, and the one place where types are checked when they are read.

>>> pair = form_of(tuple[str, int])
>>> pair.read(["a", 1])
('a', 1)
>>> pair.read(["a", "1"])
Traceback (most recent call last):
...
headwater.protocols.frames.FrameError: a number is expected, not a str
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, get_args, get_origin, get_type_hints

from headwater.protocols.frames import FrameError


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How values of one type are read, and how they are written where JSON does not know the type by itself."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value


def _checked(value: Any, type_: type, what: str) -> Any:
    if not isinstance(value, type_) or (isinstance(value, bool) and type_ is not bool):
        raise FrameError(f"{what} is expected, not a {type(value).__name__}")
    return value


def read_int(value: Any) -> int:
    """A number of 64 bits."""
    number: int = _checked(value, int, "a number")
    if not -(2**63) <= number < 2**63:
        raise FrameError("a number does not fit into 64 bits")
    return number


def read_rate(value: Any) -> float:
    """A finite number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**62:
        raise FrameError("a number from 0 on is expected")
    return float(value)


def _read_text(value: Any) -> str:
    text: str = _checked(value, str, "a text")
    # Half a surrogate pair passes as JSON, and could not be written into a frame of bytes.
    text.encode()
    return text


_PLAIN: Final = {
    int: JsonForm(read_int),
    float: JsonForm(read_rate),
    str: JsonForm(_read_text),
    bool: JsonForm(lambda value: _checked(value, bool, "yes or no")),
    bytes: JsonForm(lambda value: bytes.fromhex(_checked(value, str, "a text")), bytes.hex),
}


def form_of(type_: Any) -> JsonForm:
    """The form of a plain type, a dataclass (the row of its fields), or a sequence, mapping, tuple or option of such."""
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if is_dataclass(type_):
        return record_of(type_)  # type: ignore[arg-type]
    origin, inner = get_origin(type_), get_args(type_)
    if origin is Mapping and inner[0] is not str:
        pairs = form_of(Sequence[tuple[inner]])  # type: ignore[valid-type]
        return JsonForm(lambda values: dict(pairs.read(values)), lambda values: pairs.write(values.items()))
    first, *others = [form_of(one) for one in inner if one is not type(None)]
    if origin is tuple:
        return row_of([first, *others])
    if origin is Sequence:
        return JsonForm(
            lambda values: tuple(first.read(value) for value in _checked(values, list, "a list")),
            lambda values: [first.write(value) for value in values],
        )
    if origin is Mapping:
        return JsonForm(
            lambda values: {first.read(k): others[0].read(v) for k, v in _checked(values, dict, "an object").items()},
            lambda values: {k: others[0].write(v) for k, v in values.items()},
        )
    return JsonForm(
        lambda value: None if value is None else first.read(value),
        lambda value: None if value is None else first.write(value),
    )


def row_of(forms: Sequence[JsonForm], required: int | None = None) -> JsonForm:
    """A list with a form for each place, of which those behind the ``required`` ones may be missing."""
    least = len(forms) if required is None else required

    def read(values: Any) -> tuple[Any, ...]:
        if not least <= len(_checked(values, list, "a list")) <= len(forms):
            raise FrameError(f"{len(forms)} fields are expected, not {len(values)}")
        return tuple(form.read(value) for form, value in zip(forms, values))

    return JsonForm(read, lambda values: [form.write(value) for form, value in zip(forms, values)])


def record_of(made: type, required: int | None = None, **others: JsonForm) -> JsonForm:
    """A dataclass as the row of its fields; ``others``: the forms of fields of which the type does not say enough."""
    hints = get_type_hints(made)
    names = [field.name for field in fields(made)]
    row = row_of([others[name] if name in others else form_of(hints[name]) for name in names], required)
    return JsonForm(
        lambda values: made(*row.read(values)), lambda one: row.write([getattr(one, name) for name in names])
    )
