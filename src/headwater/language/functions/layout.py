"""The layout of a processing function: its members with their stages, made and checked when the class is."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError
from typing import Any

from headwater.language.functions import refusals
from headwater.language.functions.handlers import is_async, mark_of
from headwater.language.functions.members import (
    FEEDING,
    FunctionLayout,
    NamedHandler,
    NamedState,
    attributes_of,
    is_nested,
    path_to,
    prefixed,
)
from headwater.language.functions.stages import stages_of
from headwater.language.functions.states import State, UnboundState, WindowedState


def layout_of(cls: Any) -> FunctionLayout:
    """The layout of a function's class; raises a `QueryError` for the first thing that is wrong in it."""
    attributes = attributes_of(cls)
    has_events = refusals.feeding_of(cls, attributes)
    refusals.check_settings(cls)
    refusals.check_names(cls, attributes)
    for name, value in attributes.items():
        if isinstance(value, State):
            refusals.check_state(cls, name, value, attributes, has_events)
        elif is_nested(value):
            refusals.check_nested(cls, name, type(value).layout, has_events)
    own = [_member(cls, name, value, attributes) for name, value in attributes.items()]
    states = tuple(state for part in own for state in part.states)
    handlers = tuple(handler for part in own for handler in part.handlers)
    unsafe = cls.unsafe or any(part.unsafe for part in own)
    heights = _heights(cls, states, handlers)
    refusals.check_handlers(cls, states, handlers)
    return FunctionLayout(states, handlers, has_events, cls.cut, unsafe, heights)


def _member(cls: type, name: str, value: Any, attributes: Mapping[str, Any]) -> FunctionLayout:
    """What one attribute adds; nothing if it is no business of ours."""
    if isinstance(value, State):
        return FunctionLayout((NamedState(name, value, getattr(value, "inserted_by", None)),))
    if is_nested(value):
        return prefixed(f"{name}.", type(value).layout)
    mark = mark_of(value)
    if mark is None:
        return FunctionLayout()
    names = [_name_of(state, attributes) for state in mark.states]
    refusals.check_handler(cls, name, value, mark, names)
    known = tuple(found for found in names if found is not None)
    return FunctionLayout(handlers=(NamedHandler(name, known, mark.once, is_async(value)),))


def _name_of(state: Any, attributes: Mapping[str, Any]) -> str | None:
    """The dotted name of a state that a decorator named, None if it is no state of the function."""
    if isinstance(state, State):
        return next((name for name, value in attributes.items() if value is state), None)
    if not isinstance(state, UnboundState):
        return None
    path = path_to(state.instance, {name: value for name, value in attributes.items() if is_nested(value)})
    return None if path is None else f"{path}.{state.state.name}"


def _heights(cls: type, states: tuple[NamedState, ...], handlers: tuple[NamedHandler, ...]) -> dict[str, int]:
    windowed = [each for each in states if isinstance(each.state, WindowedState)]
    reads = {each.name: each.states for each in handlers}
    inserted_by = {each.name: None if each.inserted_by in FEEDING else each.inserted_by for each in windowed}
    try:
        return stages_of(reads, inserted_by)
    except CycleError as error:
        raise refusals.refused(cls, refusals.loop_sentence(error.args[1], reads)) from None
