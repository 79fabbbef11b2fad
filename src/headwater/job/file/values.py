"""Values of a job file that a type alone cannot judge: durations, triggers, Arrow's types, places of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.language.places import is_format_name, is_table_name, local_path
from headwater.language.times import Nanos, try_duration
from headwater.spark.streaming.start.trigger import spark_trigger


class ValueFormError(HeadwaterError):
    """What would be right; the caller says where, and what was given."""


def _clock_time(value: object) -> None:
    length = try_duration(value)
    if not isinstance(length, Nanos) or int(length) <= 0:
        raise ValueFormError("write a duration with its unit, such as '30 s'")


def _event_time(value: object) -> None:
    length = try_duration(value)
    if length is None or int(length) < 0:
        raise ValueFormError("write a duration such as '10 s', or a whole number of ticks")


def _event_time_or_any(value: object) -> None:
    if value != "any":
        length = try_duration(value)
        if length is None or int(length) < 0:
            raise ValueFormError("write a duration such as '1 h', or any")


def _trigger(value: object) -> None:
    try:
        spark_trigger(value)
    except HeadwaterError:
        raise ValueFormError("write a time between batches such as '10 s', or available now") from None


def _types(value: Mapping[str, str]) -> None:
    for name, type_ in value.items():
        try:
            pa.type_for_alias(type_)
        except ValueError:
            raise ValueFormError(
                f"{type_!r} of {name} is no type of Arrow; write int64, double, string, timestamp[us]"
            ) from None


def _target(value: object) -> None:
    """A sink given as text: a folder or the console, and nothing that only looks like a folder."""
    if not isinstance(value, str) or value == "console":
        return
    if value == "memory":
        raise ValueFormError("rows in memory end with the run; name a folder, or write console")
    if is_table_name(value):
        raise ValueFormError(
            f"this looks like a table; write {{type: table, name: {value}}}, or ./{value} for a folder"
        )
    if is_format_name(value):
        raise ValueFormError(f"this is the name of a format; name a folder, such as ./{value}")
    try:
        local_path("sink", value, "")
    except HeadwaterError:
        scheme = value.partition(":")[0]
        raise ValueFormError(
            f"{scheme}:// is not served; name a folder of this machine, or another type of sink"
        ) from None


#: Checks by the names that the description of a field gives them.
CHECKS: Final[dict[str, Callable[[Any], None]]] = {
    "clock time": _clock_time,
    "event time": _event_time,
    "event time or any": _event_time_or_any,
    "trigger": _trigger,
    "types": _types,
    "target": _target,
}
