"""One event that is inserted into a state, as a row of its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.errors import DataError, shown
from headwater.node.holon.tables import SharedTable


def row_of(table: SharedTable, state: str, element: Any, time: Any, key: Any) -> dict[str, Any]:
    """The row of an element with its time and key; what does not fit the state is refused.

    >>> import headwater as hw, pyarrow as pa
    >>> votes = hw.query("votes", hw.tumbling(10), n=hw.sum("value"), keys=["city"])
    >>> table = SharedTable(1, (votes,), pa.schema({"time": pa.int64(), "value": pa.int64(), "city": pa.string()}))
    >>> row_of(table, "votes", 3, 7, "Ulm")
    {'time': 7, 'city': 'Ulm', 'value': 3}
    """
    if type(time) is not int:
        raise DataError(f"state {state!r}: time is {shown(time)}: give the time of what is inserted, in ticks")
    keys = table.queries[0].keys
    values = [name for name in table.schema.names if name not in (table.time, *keys)]
    return {table.time: time, **_keyed(keys, state, key), **_valued(values, state, element)}


def _keyed(keys: Sequence[str], state: str, key: Any) -> dict[str, Any]:
    if isinstance(key, Mapping):
        given = dict(key)
    else:
        parts = key if isinstance(key, tuple) else () if key is None and not keys else (key,)
        given = dict(zip(keys, parts)) if len(parts) == len(keys) else {"": parts}
    if given.keys() != set(keys):
        raise DataError(f"state {state!r} has the keys {', '.join(keys) or 'none'}: key is {shown(key)}")
    return given


def _valued(names: Sequence[str], state: str, element: Any) -> dict[str, Any]:
    if isinstance(element, Mapping):
        missing = sorted(set(names) - element.keys())
        if missing:
            raise DataError(f"state {state!r} needs {missing[0]!r}; inserted was {shown(dict(element))}")
        return {name: element[name] for name in names}
    if len(names) > 1:
        raise DataError(
            f"state {state!r} has the columns {', '.join(names)}: insert a dict of them, not {shown(element)}"
        )
    # A state that only counts has no column: the element itself does not matter.
    return dict.fromkeys(names, element)
