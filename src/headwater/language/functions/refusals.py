"""What may be wrong in a processing function: each refusal names the function, the state or handler, and what would be right."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headwater.errors import QueryError, shown
from headwater.language.functions.handlers import WhenFinal, is_async, mark_of, takes
from headwater.language.functions.members import (
    FEEDING,
    RESERVED,
    Feeding,
    FunctionLayout,
    NamedHandler,
    NamedState,
    is_function_class,
    is_nested,
)
from headwater.language.functions.states import Local, State, UnboundState, WindowedLocal, WindowedState


def refused(cls: type, sentence: str, name: str | None = None, value: object = None) -> QueryError:
    """The error for one thing wrong in a function; ``name``: of the state, handler or setting."""
    return QueryError(f"function {cls.__name__}: {sentence}", query=cls.__name__, field=name, value=value)


def feeding_of(cls: type, attributes: Mapping[str, Any]) -> Feeding | None:
    """Which method takes the input, if one does."""
    there = [name for name in FEEDING if attributes.get(name) is not None]
    if len(there) == 2:
        raise refused(cls, "it has both events and event: keep one; events takes Arrow batches and is the fast one")
    for name in there:
        method, form = attributes[name], f"def {name}(self, {FEEDING[name]})"
        if not inspect.isfunction(method):
            raise refused(cls, f"{name} is {shown(method)}: it takes the input; write {form}", name, method)
        if is_async(method):
            why = "a partition does not wait while it reads"
            raise refused(cls, f"{name} is async: {why}; write {form} and read in a @hw.when_final handler", name)
        if mark_of(method) is not None:
            raise refused(cls, f"{name} takes the input and is no handler: call the handler something else", name)
        if not takes(method, 2):
            raise refused(cls, f"{name} takes {inspect.signature(method)}: write {form}", name)
    return there[0] if there else None


def check_settings(cls: Any) -> None:
    """Refuse values that ``cut`` and ``unsafe`` may not have."""
    if cls.cut is not None and (type(cls.cut) is not int or cls.cut < 1):
        right = "give the number of events of a batch, an integer above 0, or leave it out"
        raise refused(cls, f"cut is {shown(cls.cut)}: {right}", "cut", cls.cut)
    if not isinstance(cls.unsafe, bool):
        raise refused(cls, f"unsafe is {shown(cls.unsafe)}: use True or False", "unsafe", cls.unsafe)


def check_names(cls: type, attributes: Mapping[str, Any]) -> None:
    """Refuse attributes that have no name of their own, or a class where an instance was meant."""
    seen: dict[int, str] = {}
    for name, value in attributes.items():
        ours = isinstance(value, State) or is_nested(value)
        if ours and name in RESERVED:
            raise refused(cls, f"{name!r} means something else in a function: give what it holds another name", name)
        if isinstance(value, State) and value.name != name:
            raise refused(cls, f"state {name!r} is the same object as {value.name!r}: write one for each name", name)
        if isinstance(value, UnboundState):
            raise refused(cls, f"{name!r} is a state of a nested function: name it where it is read", name)
        if ours and id(value) in seen:
            raise refused(cls, f"{name!r} is the same object as {seen[id(value)]!r}: write one for each name", name)
        if isinstance(value, type) and is_function_class(value) and not _is_defined_in(cls, value):
            right = f"write {name} = {value.__name__}()"
            raise refused(cls, f"{name!r} is the class {value.__name__}: {right} for a nested function", name)
        seen[id(value)] = name


def _is_defined_in(cls: type, inner: type) -> bool:
    # A class that is written inside of the function's is a definition, not a nested function that was meant.
    return inner.__qualname__.startswith(f"{cls.__qualname__}.")


def check_state(cls: type, name: str, state: State, attributes: Mapping[str, Any], feeding: Feeding | None) -> None:
    """Refuse a state that is wrong by itself, or that nothing inserts into."""
    if isinstance(state, Local):
        for problem in state.problems():
            raise refused(cls, f"state {name!r}: {problem.text()}", name, state.initial)
    if not isinstance(state, WindowedState):
        return
    _in_words_of(cls, name, lambda: state.query(name))
    _check_inserter(cls, name, state, attributes, feeding)
    for problem in state.column_problems():
        raise refused(cls, f"state {name!r}: {problem.text()}", name, problem.value)
    _in_words_of(cls, name, lambda: state.check_types(name))


def _in_words_of(cls: type, name: str, check: Callable[[], object]) -> None:
    """A check of a query, whose refusal says the function and the state instead of the query."""
    try:
        check()
    except QueryError as error:
        sentence = str(error).removeprefix(f"query {shown(name)}: ")
        raise refused(cls, f"state {name!r}: {sentence}", name, error.value) from None


def _check_inserter(
    cls: type, name: str, state: WindowedState, attributes: Mapping[str, Any], feeding: Feeding | None
) -> None:
    given: Any = state.inserted_by
    if given is None or given == feeding:
        return
    what = f"state {name!r} is inserted by {shown(given)}"
    if isinstance(given, str) and given in FEEDING:
        form = f"def {given}(self, {FEEDING[given]})"
        there = f"it has {feeding}; name that" if feeding else f"write {form}, or leave inserted_by out"
        raise refused(cls, f"{what}, which is not there: {there}", name, given)
    if not isinstance(given, str) or mark_of(attributes.get(given)) is None:
        handlers = [repr(other) for other, value in attributes.items() if mark_of(value) is not None]
        known = ", ".join(["'events'", "'event'", *handlers])
        raise refused(cls, f"{what}, which is no handler of it: name one of {known}", name, given)


def check_nested(cls: Any, name: str, inner: FunctionLayout, feeding: Feeding | None) -> None:
    """Refuse a nested function that would not be called as it is written."""
    if inner.has_events is not None and inner.has_events != feeding:
        given = FEEDING[inner.has_events]
        form = f"def {inner.has_events}(self, {given}): yield from self.{name}.{inner.has_events}({given})"
        raise refused(cls, f"nested function {name!r} has {inner.has_events}, which nobody calls: write {form}", name)
    if inner.cut is not None and inner.cut != cls.cut:
        what = f"nested function {name!r} has batches cut at {inner.cut} events"
        raise refused(cls, f"{what}, and this one has not: write cut = {inner.cut}", name)


def check_handler(cls: type, name: str, method: Any, mark: WhenFinal, names: list[str | None]) -> None:
    """Refuse a handler that is wrong by itself; ``names`` are those of its states, None for what is no state of the function."""
    what = f"handler {name!r}"
    if not mark.states:
        raise refused(cls, f"{what} names no state: write @hw.when_final(total) above it", name)
    if not isinstance(mark.once, bool):
        raise refused(cls, f"{what}: once is {shown(mark.once)}: use True or False", name, mark.once)
    for state, found in zip(mark.states, names, strict=True):
        if found is None:
            raise refused(cls, f"{what} names {_described(state)}: {_right_state(state)}", name, state)
        if isinstance(state.state if isinstance(state, UnboundState) else state, Local):
            right = f"leave it out and read self.{found}.value inside"
            raise refused(cls, f"{what} names {found!r}, a Local, which has no windows: {right}", name, state)
    if not takes(method, 2 + len(names)):
        arguments = ", ".join(["self", "w", *(str(found).rpartition(".")[2] for found in names)])
        right = f"write def {name}({arguments}), with one argument for each state"
        raise refused(cls, f"{what} takes {inspect.signature(method)}: {right}", name)


def _described(state: Any) -> str:
    if isinstance(state, UnboundState):
        return f"{type(state.instance).__name__}.{state.state.name}"
    if isinstance(state, State):
        return "a state without a name" if state.name is None else f"the state {state.name!r}"
    return shown(state)


def _right_state(state: Any) -> str:
    if isinstance(state, UnboundState):
        return "it is a state of an instance that is no attribute of this class; write hot = HotItems(), and name hot.counts"
    if isinstance(state, State):
        return "this class has no such state; name its own, or those of a nested function as hot.counts"
    return "name states of the class, such as @hw.when_final(total)"


def loop_sentence(loop: list[str], reads: Mapping[str, Any]) -> str:
    """The loop in words, from its first handler on: each name is what the next one needs."""
    first = next(index for index, name in enumerate(loop) if name in reads)
    turned = [*loop[first:-1], *loop[:first]]
    steps = [
        f"handler {name!r} inserts into state {turned[(index + 1) % len(turned)]!r}"
        if name in reads
        else f"which handler {turned[(index + 1) % len(turned)]!r} reads"
        for index, name in enumerate(turned)
    ]
    remedy = "a window would wait for itself; insert into a state that no earlier handler reads, or carry the value in a hw.Local"
    return f"{', '.join(steps)}: {remedy}"


def check_handlers(cls: type, states: tuple[NamedState, ...], handlers: tuple[NamedHandler, ...]) -> None:
    """Refuse handlers that read or insert what does not go together."""
    by_name = {each.name: each.state for each in states}
    for handler in handlers:
        read = [(name, by_name[name]) for name in handler.states]
        inserts = [each for each in states if each.inserted_by == handler.name]
        for sentence in _handler_problems(handler, read, inserts):
            raise refused(cls, f"handler {handler.name!r} {sentence}", handler.name)


def _handler_problems(handler: NamedHandler, read: list[tuple[str, Any]], inserts: list[NamedState]) -> Iterator[str]:
    (first, state), *others = read
    for name, other in others:
        if other.window != state.window:
            right = "give both the same window, or write a handler for each"
            yield f"reads {first!r} by {state.window!r} and {name!r} by {other.window!r}: {right}"
    for name, other in read if handler.once else ():
        if isinstance(other, WindowedLocal):
            right = "make it a hw.WindowedCRDT, or leave once out"
            yield f"runs once for all and reads {name!r}, which is of one partition: {right}"
    for each in inserts:
        if handler.once and isinstance(each.state, WindowedLocal):
            right = "make it a hw.WindowedCRDT, or leave once out"
            yield f"runs once for all and inserts into {each.name!r}, which is of one partition: {right}"
        for name, other in read:
            if other.lateness > 0:
                why = "a window that changes would be inserted twice"
                right = f"leave the lateness of {name!r} out, or only yield rows here"
                yield f"inserts into {each.name!r} and reads {name!r}, which has lateness: {why}; {right}"
