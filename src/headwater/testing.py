"""For your own tests: does an aggregate obey the laws that make its results the same in every plan?

A stream is cut into slices, slices are combined in whatever grouping suits, partials travel as bytes. That changes nothing as
long as ``combine`` is associative, ``identity`` changes nothing, order does not matter where that is claimed, and combining the
pieces is the same as lifting the whole. `check_laws` tries to break each of these with generated values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import read_values
from headwater.engine.operators.partials import Op, lift, partials_from_bytes, partials_to_bytes
from headwater.engine.results.aggregates import lower, operators_of, type_read
from headwater.language.aggregations import Aggregation, apply
from headwater.language.user_code import Aggregate, Operator

PIECES = 3


def __getattr__(name: str) -> Any:
    # It runs functions, of which aggregates know nothing.
    if name == "check_function":
        from headwater.holon.two_runners import check_function

        return check_function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


#: Events of the whole, each as (value, piece it falls into, time).
Events = list[tuple[Any, int, int]]


class BrokenLawError(AssertionError):
    """A law that does not hold, with the values that show it."""


def check_laws(
    aggregate: Aggregate | Aggregation,
    values: Any = None,
    *,
    type: pa.DataType | None = None,
    relative: float = 0.0,
    examples: int = 100,
) -> None:
    """Try to break the laws of an aggregate; the first one that breaks is raised as `BrokenLawError` with the values that did it.

    ``values`` are sample values or a Hypothesis strategy for one value; None among them is a null. Without them, numbers whose
    sums are exact in a double, and nulls. ``type`` is the Arrow type of the column, if the values do not tell it.
    ``relative`` allows results to differ by rounding; partials are then compared only by the results they lead to.

    >>> from headwater.language.user_code import aggregate_of
    >>> spread = aggregate_of(
    ...     "spread", lambda v: [v.min(), v.max()], lambda a, b: [min(a[0], b[0]), max(a[1], b[1])],
    ...     lambda p: p[1] - p[0], [math.inf, -math.inf])
    >>> check_laws(spread)
    >>> mean = aggregate_of("mean", lambda v: v.mean(), lambda a, b: (a + b) / 2, lambda p: p, 0.0)
    >>> try:
    ...     check_laws(mean)
    ... except BrokenLawError as broken:
    ...     print(broken)
    mean: the identity, combined with a partial, must leave it as it is (operator 'mean')
      values:    [[0.125], [], []]
      one way:   np.float64(0.125)
      the other: np.float64(0.0625)
    """
    aggregation = aggregate if isinstance(aggregate, Aggregation) else apply(aggregate, "value")
    laws = _Laws(aggregation, type, relative)

    def try_to_break(events: Events) -> None:
        for law in (laws.of_operators, laws.of_partials, laws.of_results):
            law(events)

    _for_generated_events(values, try_to_break, examples)


def _for_generated_events(values: Any, check: Callable[[Events], None], examples: int) -> None:
    try:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import strategies as st
    except ImportError as error:
        raise ImportError("check_laws generates its values with hypothesis: pip install hypothesis") from error
    if values is None:
        # Eighths up to a million: any number of them adds up without rounding.
        drawn = st.none() | st.integers(-(2**23), 2**23).map(lambda eighths: eighths / 8)
    else:
        drawn = values if isinstance(values, st.SearchStrategy) else st.sampled_from(list(values))
    events = st.lists(st.tuples(drawn, st.integers(0, PIECES - 1), st.integers(0, 5)), max_size=20)
    # The same examples on every run: a red test is caused by a change, not by luck.
    fixed = settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    fixed(given(events)(check))()


class _Laws:
    """The laws of one aggregation, each a method that raises when given events that break it."""

    def __init__(self, aggregation: Aggregation, type_: pa.DataType | None, relative: float) -> None:
        self.aggregation = aggregation
        self.relative = relative
        self._type = type_
        self.name = aggregation.parameter.name if aggregation.function == "user" else aggregation.function

    def of_operators(self, events: Events) -> None:
        """Users' functions by themselves, on pieces that lie one behind the other."""
        if self.aggregation.function != "user":
            return
        chunk, _ = self._chunk(events)
        values = chunk.columns[self.aggregation.columns[0]]
        order = chunk.in_order()
        known = np.arange(len(chunk)) if order is None else order
        if values.valid is not None:
            known = known[values.valid[known]]
        pieces = np.array_split(values.data[known], PIECES)
        for own in self.aggregation.parameter.operators:
            for law, left, right in _operator_laws(own, pieces):
                if not self._same_partials(own, left, right):
                    self._fail(f"{law} (operator {own.name!r})", [piece.tolist() for piece in pieces], left, right)

    def of_partials(self, events: Events) -> None:
        """The engine's partials of the pieces: grouping, identity, order, bytes."""
        chunk, rows = self._chunk(events)
        pieces = lift(self._ops(chunk), chunk, rows, PIECES + 1)  # the last row stays empty
        combined = _combined(pieces, [0, 1, 2])
        for law, other in [
            ("(a + b) + c and a + (b + c) must be the same", _combined(_grouped(pieces), [0, 1])),
            ("the identity must change nothing", _combined(pieces, [3, 0, 3, 1, 2, 3])),
            ("pieces may come in any order", _combined(pieces, [2, 0, 1])),
            ("a partial must survive its journey as bytes", partials_from_bytes(partials_to_bytes(combined), combined)),
        ]:
            self._compare(law, events, chunk, combined, other)

    def of_results(self, events: Events) -> None:
        """The pieces together are the whole."""
        chunk, rows = self._chunk(events)
        ops = self._ops(chunk)
        whole = lift(ops, chunk, np.zeros(len(rows), np.int32), 1)
        together = _combined(lift(ops, chunk, rows, PIECES), [0, 1, 2])
        left, right = self._lowered(whole, chunk), self._lowered(together, chunk)
        if not _close(left, right, self.relative):
            self._fail("lowering the combined pieces must give what lowering the whole gives", events, left, right)

    def _chunk(self, events: Events) -> tuple[Chunk, Any]:
        values = [value for value, _, _ in events]
        type_ = self._type
        if type_ is None and all(value is None for value in values):
            type_ = pa.float64()
        read = read_values(pa.array(values, type_))
        count = len(events)
        times = np.array([time for _, _, time in events], np.int64)
        sources = (np.arange(count) % 2).astype(np.int32)
        chunk = Chunk(
            times, np.arange(count, dtype=np.int64), sources, ["b", "a"], dict.fromkeys(self.aggregation.columns, read)
        )
        return chunk, np.array([piece for _, piece, _ in events], np.int32)

    def _ops(self, chunk: Chunk) -> tuple[Op, ...]:
        return operators_of(self.aggregation, self._type_read(chunk))

    def _lowered(self, partials: dict[Op, Any], chunk: Chunk) -> Any:
        return lower(self.aggregation, partials, self._type_read(chunk))[0].as_py()

    def _type_read(self, chunk: Chunk) -> pa.DataType | None:
        return type_read(self.aggregation, {name: values.type for name, values in chunk.columns.items()})

    def _same_partials(self, own: Operator, left: Any, right: Any) -> bool:
        return own.to_bytes(left) == own.to_bytes(right) or (self.relative > 0 and _close(left, right, self.relative))

    def _compare(self, law: str, events: Events, chunk: Chunk, left: dict[Op, Any], right: dict[Op, Any]) -> None:
        if self.relative == 0 and not _is_rounded(left) and partials_to_bytes(left) != partials_to_bytes(right):
            self._fail(law, events, self._lowered(left, chunk), self._lowered(right, chunk))
        tolerance = 1e-12 if _is_rounded(left) else self.relative
        values = self._lowered(left, chunk), self._lowered(right, chunk)
        if not _close(*values, tolerance):
            self._fail(law, events, *values)

    def _fail(self, law: str, shown: object, left: object, right: object) -> None:
        raise BrokenLawError(f"{self.name}: {law}\n  values:    {shown}\n  one way:   {left!r}\n  the other: {right!r}")


def _operator_laws(own: Operator, pieces: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Each law of an operator with the two sides that must be equal; made one after the other, fresh each time."""
    combine = own.combine

    def lifted() -> list[Any]:
        return [own.lift(piece) if len(piece) else own.empty() for piece in pieces]

    for piece in pieces:
        if len(piece):
            law = "the identity, combined with a partial, must leave it as it is"
            yield law, own.lift(piece), combine(own.empty(), own.lift(piece))
            yield law, own.lift(piece), combine(own.lift(piece), own.empty())
            law = "a partial must survive its journey as bytes"
            yield law, own.lift(piece), own.from_bytes(own.to_bytes(own.lift(piece)))
    a, b, c = lifted()
    d, e, f = lifted()
    yield "combine must be associative", combine(combine(a, b), c), combine(d, combine(e, f))
    if own.commutative:
        a, b, _ = lifted()
        d, e, _ = lifted()
        yield "combine must be commutative (or say commutative=False)", combine(a, b), combine(e, d)
    whole = np.concatenate(pieces)
    if len(whole):
        a, b, c = lifted()
        yield "combining the pieces must give what lifting the whole gives", combine(combine(a, b), c), own.lift(whole)


def _combined(partials: dict[Op, Any], rows: Sequence[int]) -> dict[Op, Any]:
    """One row: these rows combined in this order."""
    indices, everything = np.array(rows, np.int64), (np.zeros(1, np.int64), np.array([len(rows)], np.int64))
    return {op: column.take(indices).combine_ranges(*everything) for op, column in partials.items()}


def _grouped(partials: dict[Op, Any]) -> dict[Op, Any]:
    """Two rows: the first piece, and the other two combined."""
    lo, hi = np.array([0, 1], np.int64), np.array([1, 3], np.int64)
    return {op: column.combine_ranges(lo, hi) for op, column in partials.items()}


def _is_rounded(partials: dict[Op, Any]) -> bool:
    """Products of floats are the one built-in operator that rounds on the way."""
    return any(op.kind == "product" and column.is_float for op, column in partials.items())


def _close(left: Any, right: Any, relative: float) -> bool:
    """Equal, NaN to itself, or numbers within the tolerance; lists element by element."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(_close(a, b, relative) for a, b in zip(left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_close(left[key], right[key], relative) for key in left)
    if isinstance(left, float) and isinstance(right, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or left == right or math.isclose(left, right, rel_tol=relative)
    return bool(left == right)
