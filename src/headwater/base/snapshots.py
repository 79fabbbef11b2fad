"""Snapshots declared by fields: a class says once which of its attributes are its state, instead of in two methods.

A spec is the path of an attribute ("walk.done"), an `Attribute` with a form of its own (`rows`, `pairs`, `record`, `parts`,
`made_of`, `told`), or a list or dictionary of specs, which becomes a list or dictionary of states. An attribute that has a state
of its own (methods ``state`` and ``restore``) is a component: its state is part of its owner's, and it is restored where it
stands.

>>> class Counter:
...     state, restore = snapshot("count", pairs("by_key"))
...     def __init__(self):
...         self.count, self.by_key = 0, {}
>>> class Engine:
...     state, restore = snapshot({"mark": "watermark", "parts": ["counter", "names"]})
...     def __init__(self):
...         self.watermark, self.counter, self.names = 5, Counter(), ["a"]
>>> engine, other = Engine(), Engine()
>>> engine.counter.by_key[3, 4] = 7
>>> engine.state()
{'mark': 5, 'parts': [[0, [[3, 4, 7]]], ['a']]}
>>> other.restore(engine.state())
>>> other.counter.by_key
{(3, 4): 7}

A class whose ``restore`` has more to do (needs types, or comes to something from what it restored) calls `state_of` and
`restore_into` with its spec in methods of its own. What is restored belongs to the new owner: take it from bytes, not from a
live object. Fields are only ever added at the end of a list: states of older releases are shorter there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

Spec: TypeAlias = "str | Attribute | Sequence[Spec] | Mapping[str, Spec]"


class Attribute(NamedTuple):
    """An attribute in a form of its own. ``read`` gets what stands there now, what was written, and what ``restore`` is given."""

    path: str
    write: Callable[[Any], Any]
    read: Callable[..., Any]


def made_of(path: str, write: Callable[[Any], Any], made: Callable[[Any], Any]) -> Attribute:
    """An attribute that is made anew of what ``write`` gives."""
    return Attribute(path, write, lambda _, kept, *given: made(kept))


def told(path: str, write: Callable[[Any], Any]) -> Attribute:
    """What ``write`` says of an attribute, which itself stays as it is: its owner does the rest when it is restored."""
    return Attribute(path, write, lambda value, *_: value)


def rows(path: str, made: Any) -> Attribute:
    """A list of dataclasses or named tuples, each as the list of its fields."""
    return made_of(path, lambda values: [_row(value) for value in values], lambda kept: [made(*row) for row in kept])


def record(path: str, made: Any) -> Attribute:
    """One of them, or None."""
    return made_of(
        path, lambda value: None if value is None else _row(value), lambda kept: None if kept is None else made(*kept)
    )


def pairs(path: str, made: Any = None) -> Attribute:
    """A dictionary as the list of its entries; of keys that are tuples, each member is a place of its own.

    ``made``: the class of values that are rows.
    """

    def write(values: Any) -> Any:
        entries = ((key if isinstance(key, tuple) else (key,), value) for key, value in values.items())
        return [[*key, value if made is None else _row(value)] for key, value in entries]

    def read(kept: Any) -> Any:
        entries = ((tuple(key) if len(key) > 1 else key[0], value) for *key, value in kept)
        return {key: value if made is None else made(*value) for key, value in entries}

    return made_of(path, write, read)


def parts(path: str) -> Attribute:
    """A list of components, as many when they are restored as there were."""

    def read(values: Any, kept: Any, *given: Any) -> Any:
        for value, state in zip(values, kept, strict=True):
            value.restore(state, *given)
        return values

    return Attribute(path, lambda values: [value.state() for value in values], read)


def _row(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [getattr(value, field.name) for field in fields(value)]


def snapshot(*specs: Spec) -> tuple[Callable[[Any], Any], Callable[..., None]]:
    """The methods ``state`` and ``restore`` of a class: of one spec as it is, of several as a list.

    What ``restore`` is given besides the state, it gives to the ``restore`` of each component.
    """
    spec = specs[0] if len(specs) == 1 else specs

    def state(self: Any) -> Any:
        return state_of(self, spec)

    def restore(self: Any, state: Any, *given: Any) -> None:
        restore_into(self, spec, state, *given)

    return state, restore


def state_of(owner: Any, spec: Spec) -> Any:
    """What the spec says of its owner, as a tree of plain values."""
    if isinstance(spec, str):
        value = attrgetter(spec)(owner)
        return value.state() if hasattr(value, "state") else value
    if isinstance(spec, Attribute):
        return spec.write(attrgetter(spec.path)(owner))
    if isinstance(spec, Mapping):
        return {name: state_of(owner, inner) for name, inner in spec.items()}
    return [state_of(owner, inner) for inner in spec]


def restore_into(owner: Any, spec: Spec, state: Any, *given: Any) -> None:
    """Give an owner the state that `state_of` took of another of its kind."""
    if isinstance(spec, str | Attribute):
        *way, name = (spec if isinstance(spec, str) else spec.path).split(".")
        holder = attrgetter(".".join(way))(owner) if way else owner
        value = getattr(holder, name)
        if isinstance(spec, Attribute):
            if (made := spec.read(value, state, *given)) is not value:
                setattr(holder, name, made)
        elif hasattr(value, "restore"):
            value.restore(state, *given)
        else:
            setattr(holder, name, state)
    elif isinstance(spec, Mapping):
        for name, inner in spec.items():
            restore_into(owner, inner, state[name], *given)
    else:
        for inner, kept in zip(spec, state):
            restore_into(owner, inner, kept, *given)
