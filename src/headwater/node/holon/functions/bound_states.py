"""States as users' methods see them while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import DataError, QueryError
from headwater.language.functions.handlers import WindowRead
from headwater.language.functions.states import json_problems
from headwater.node.holon.functions.batches import EventBatch
from headwater.node.holon.functions.reading import StageReading


class LocalCell:
    """A value of this partition."""

    __slots__ = ("_name", "_value")

    def __init__(self, name: str, value: Any) -> None:
        self._name, self._value = name, value

    @property
    def value(self) -> Any:
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        for problem in json_problems("value", value):
            raise DataError(f"state {self._name!r}: {problem.text()}")
        self._value = value


class Insertion(Protocol):
    """Takes what is inserted into a state; ``where`` says what a method is doing, for messages."""

    def insert(self, state: str, element: Any, time: Any, key: Any) -> None: ...


class EventState:
    """A windowed state in ``events`` and ``event``: inserted into, and read only where that is said to be unsafe."""

    def __init__(self, name: str, insertion: Insertion, peek: Callable[[str, WindowRead], Any] | None) -> None:
        self._name, self._insertion, self._peek = name, insertion, peek

    def insert(self, element: Any, time: Any = None, key: Any = None) -> None:
        """One event with its time, or a batch."""
        self._insertion.insert(self._name, element, time, key)

    def increment_watermark(self, time: int) -> None:
        """Watermarks follow from the events of the input and their disorder; to say so again is harmless, and changes nothing."""

    def peek(self, w: WindowRead) -> Any:
        """The value of a window if it is final as far as this node knows, else None: another node may know more."""
        if self._peek is None:
            raise self._refused("peek")
        return self._peek(self._name, w)

    def value(self, _: WindowRead) -> Any:
        raise self._refused("value")

    def when(self, _: WindowRead) -> Any:
        raise self._refused("when")

    def then(self, _: WindowRead, __: object) -> None:
        raise self._refused("then")

    @property
    def global_watermark(self) -> int:
        raise self._refused("global_watermark")

    def _refused(self, what: str) -> QueryError:
        return QueryError(
            f"state {self._name!r}: {what} reads while events come in, and what it gives would depend on when they come; "
            f"read it in a handler, @hw.when_final({self._name}), or say unsafe = True in the class and peek"
        )


class Awaited:
    """What ``await self.daily.when(w)`` waits for."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    def __await__(self) -> Any:
        # Never suspended: where the window is not final the handler is given up, and called anew when it may be.
        yield from ()
        return self._read()


class HandlerState:
    """A windowed state in handlers: read as of the step, inserted into if it is said to be inserted there."""

    def __init__(
        self, name: str, reading: StageReading, insertion: Insertion, later: Callable[[str, WindowRead, Any], None]
    ) -> None:
        self._name, self._reading, self._insertion, self._later = name, reading, insertion, later

    def value(self, w: WindowRead) -> Any:
        """The value with which a window became final; one that is not final yet is refused."""
        return self._reading.value(self._name, w)

    def when(self, w: WindowRead) -> Awaited:
        """The same, waited for: ``await self.daily.when(w)`` in an async handler."""
        return Awaited(lambda: self._reading.wait(self._name, w))

    def then(self, w: WindowRead, method: Any) -> None:
        """Call a method of the function with the window and its value once it is final."""
        self._later(self._name, w, method)

    def peek(self, w: WindowRead) -> Any:
        """The value of a window if it is final as of this step, else None."""
        return self._reading.value(self._name, w) if self._reading.is_final(self._name, w) else None

    @property
    def global_watermark(self) -> int:
        """How far all partitions have come, as of this step."""
        return self._reading.time

    def insert(self, element: Any, time: Any = None, key: Any = None) -> None:
        """One event with its time, or a batch; not older than the windows that are final."""
        self._insertion.insert(self._name, element, time, key)

    def increment_watermark(self, _: int) -> None:
        raise QueryError(
            f"state {self._name!r}: its watermark follows from the steps of the stage that inserts; leave this out"
        )


def lowest_time(element: Any, time: Any, column: str) -> int | None:
    """The earliest time of what is inserted; None if it cannot be told, or there is nothing."""
    if not isinstance(element, EventBatch | pa.RecordBatch | pa.Table):
        return time if type(time) is int else None
    if type(time) is int:
        return time
    table = element.arrow if isinstance(element, EventBatch) else element
    name = time if isinstance(time, str) else column
    if name not in table.schema.names or not table.num_rows:
        return None
    low = pc.min(table.column(name).cast(pa.int64())).as_py()
    return None if low is None else int(low)
