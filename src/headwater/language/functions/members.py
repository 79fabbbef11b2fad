"""What a processing function consists of: its states and handlers in the order in which they are written.

A nested function is an attribute that holds an instance of another function; what is in it has a dotted name, ``hot.counts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from headwater.language.functions.states import State

Feeding = Literal["events", "event"]
#: The methods that take the input, and what each is called with.
FEEDING: Final[dict[Feeding, str]] = {"events": "batch", "event": "e"}
#: Names that mean something else in a function.
RESERVED: Final = ("events", "event", "cut", "unsafe", "_states", "layout")


@dataclass(frozen=True, slots=True)
class NamedState:
    """A state by its dotted name; ``inserted_by``: "events", "event", the dotted name of a handler, None if declared."""

    name: str
    state: State
    inserted_by: str | None


@dataclass(frozen=True, slots=True)
class NamedHandler:
    """A handler by its dotted name, with those of the states that it reads."""

    name: str
    states: tuple[str, ...]
    once: bool
    is_async: bool


@dataclass(frozen=True, slots=True)
class FunctionLayout:
    """The states and handlers of a function in the order in which they are written, and its settings.

    ``heights``: the level of each windowed state and the stage of each handler.
    """

    states: tuple[NamedState, ...] = ()
    handlers: tuple[NamedHandler, ...] = ()
    has_events: Feeding | None = None
    cut: int | None = None
    unsafe: bool = False
    heights: Mapping[str, int] = field(default_factory=dict)


def attributes_of(cls: type) -> dict[str, Any]:
    """The attributes of a class in the order in which they are written, those that it inherits first."""
    found: dict[str, Any] = {}
    for ancestor in reversed(cls.__mro__[:-1]):
        found.update(vars(ancestor))
    return found


def is_nested(value: object) -> bool:
    """Whether a value is an instance of a processing function."""
    return isinstance(getattr(type(value), "layout", None), FunctionLayout)


def nested_in(instance: object) -> dict[str, Any]:
    """The nested functions of an instance, which are its own."""
    return {name: value for name, value in vars(instance).items() if is_nested(value)}


def path_to(instance: object, nested: Mapping[str, Any]) -> str | None:
    """The dotted name under which an instance is found among nested functions, at any depth; None if it is not."""
    for name, value in nested.items():
        if value is instance:
            return name
        deeper = path_to(instance, nested_in(value))
        if deeper is not None:
            return f"{name}.{deeper}"
    return None


def is_function_class(value: object) -> bool:
    """Whether a value is the class of a processing function."""
    return isinstance(value, type) and isinstance(vars(value).get("layout"), FunctionLayout)


def prefixed(prefix: str, inner: FunctionLayout) -> FunctionLayout:
    """The layout of a nested function with dotted names."""
    states = tuple(
        NamedState(prefix + each.name, each.state, _prefixed_inserter(prefix, each.inserted_by))
        for each in inner.states
    )
    handlers = tuple(
        NamedHandler(prefix + each.name, tuple(prefix + name for name in each.states), each.once, each.is_async)
        for each in inner.handlers
    )
    return FunctionLayout(states, handlers, inner.has_events, inner.cut, inner.unsafe)


def _prefixed_inserter(prefix: str, inserted_by: str | None) -> str | None:
    return inserted_by if inserted_by is None or inserted_by in FEEDING else prefix + inserted_by
