"""Processing functions: states, what fills them, and what is done with windows that are final everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from headwater.errors import QueryError, shown
from headwater.language.functions.layout import layout_of
from headwater.language.functions.members import FunctionLayout, attributes_of, is_nested, nested_in, path_to
from headwater.language.functions.states import State

_P = TypeVar("_P", bound="ProcessingFunction")


class ProcessingFunction:
    """The base of users' functions: a class whose attributes are states, handlers and nested functions.

    Each partition of the input has an instance. ``events(self, batch)`` or ``event(self, e)`` sees the input, where events
    do not get into states by themselves, and may yield rows. Handlers are called with windows that are final. What an
    instance is to remember stands in its states: everything else is gone when another node takes the partition over.

    ``cut``: batches have so many events, for code that must know; else they are cut anywhere. ``unsafe``: ``events`` may peek
    at windows that are not final, and rows may then differ from run to run.

    >>> import headwater as hw
    >>> class BidShare(hw.ProcessingFunction):
    ...     total = hw.WindowedCRDT(hw.count(), hw.tumbling("1 s"), where=hw.col("kind") == "bid")
    ...     mine = hw.WindowedLocal(hw.count(), hw.tumbling("1 s"), where=hw.col("kind") == "bid")
    ...
    ...     @hw.when_final(total, mine)
    ...     def share(self, w, total, mine):
    ...         yield {"window_end": w.end, "share": mine / total}
    >>> [(handler.name, handler.states) for handler in BidShare.layout.handlers]
    [('share', ('total', 'mine'))]
    """

    cut: ClassVar[int | None] = None
    unsafe: ClassVar[bool] = False
    #: What the class consists of; written when it is made.
    layout: ClassVar[FunctionLayout] = FunctionLayout()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.layout = layout_of(cls)

    def __new__(cls, *_args: Any, **_named: Any) -> Self:
        """An instance with nested functions of its own: those of the class are shared by all partitions."""
        made = super().__new__(cls)
        vars(made).update((name, _copied(value)) for name, value in attributes_of(cls).items() if is_nested(value))
        return made

    # Without it Python would take arguments and drop them, because there is a __new__.
    def __init__(self) -> None:
        pass

    def __setattr__(self, name: str, value: object) -> None:
        where = f"{type(self).__name__}.{name}"
        if name != "_states" and "_states" in vars(self):
            right = f"declare {name} = hw.Local(...) in the class and set self.{name}.value"
            raise QueryError(f"{where} is set in a run, and would be gone when another node takes over: {right}")
        if isinstance(value, State | ProcessingFunction):
            raise QueryError(f"{where} is set on an instance: declare states and nested functions in the class")
        super().__setattr__(name, value)


def bound(function: type[_P], states: Mapping[str, Any]) -> _P:
    """An instance for one partition, in which each state is what the host gives under its dotted name.

    Methods are then found by their dotted names, `operator.attrgetter("hot.report")`.

    >>> import headwater as hw
    >>> class HotItems(hw.ProcessingFunction):
    ...     counts = hw.WindowedCRDT(hw.count(), hw.tumbling("1 s"), keys="auction")
    >>> class Shop(hw.ProcessingFunction):
    ...     hot = HotItems()
    ...     seen = hw.Local(0)
    >>> shop = bound(Shop, {"hot.counts": "counts of this partition", "seen": "a cell"})
    >>> shop.hot.counts, shop.seen
    ('counts of this partition', 'a cell')
    """
    made = function()
    _bind(made, states)
    return made


def name_of(instance: ProcessingFunction, method: Any) -> str:
    """The dotted name of a method of an instance, or of a function nested in it; a name can be kept, and a method cannot.

    >>> class Inner(ProcessingFunction):
    ...     def report(self, w, total): ...
    >>> class Outer(ProcessingFunction):
    ...     inner = Inner()
    >>> outer = Outer()
    >>> name_of(outer, outer.inner.report)
    'inner.report'
    """
    owner, name = getattr(method, "__self__", None), getattr(method, "__name__", None)
    path = path_to(owner, {"": instance})
    if path is None or name is None or getattr(owner, name, None) != method:
        form = "give a method of it, such as self.report"
        raise QueryError(f"function {type(instance).__name__}: {shown(method)} is no method of the function: {form}")
    return f"{path}.{name}".lstrip(".")


def _bind(instance: ProcessingFunction, states: Mapping[str, Any]) -> None:
    for name, inner in nested_in(instance).items():
        prefix = f"{name}."
        _bind(inner, {key.removeprefix(prefix): value for key, value in states.items() if key.startswith(prefix)})
    vars(instance)["_states"] = {key: value for key, value in states.items() if "." not in key}


def _copied(nested: ProcessingFunction) -> ProcessingFunction:
    # Not copy.copy: it would share what is nested deeper.
    made = type(nested).__new__(type(nested))
    vars(made).update((name, value) for name, value in vars(nested).items() if not is_nested(value))
    return made
