"""When a stream's batches begin, as users write it and as Spark takes it."""

from __future__ import annotations

from typing import Any

from headwater.errors import QueryError
from headwater.language.times import Nanos, try_duration

_FORM = "give 'available now', a time between batches such as '10 seconds', or None: one batch after the other"


def spark_trigger(trigger: object) -> dict[str, Any]:
    """The arguments of Spark's `trigger`, none for the default; asked before a stream begins anything.

    >>> spark_trigger("availableNow"), spark_trigger("1 min"), spark_trigger(None)
    ({'availableNow': True}, {'processingTime': '60000 milliseconds'}, {})
    >>> spark_trigger("hourly")
    Traceback (most recent call last):
    headwater.errors.QueryError: trigger is 'hourly': give 'available now', a time between batches such as '10 seconds',
        or None: one batch after the other
    """
    if trigger is None:
        return {}
    if isinstance(trigger, str) and "".join(filter(str.isalpha, trigger)).lower() == "availablenow":
        return {"availableNow": True}
    given = trigger.strip().lower().removeprefix("interval ") if isinstance(trigger, str) else trigger
    between = try_duration(given)
    if between is None or (between != 0 and not isinstance(between, Nanos)) or int(between) < 0:
        raise QueryError(f"trigger is {trigger!r}: {_FORM}")
    if int(between) % 1_000_000:
        raise QueryError(f"trigger is {trigger!r}: give a whole number of milliseconds")
    return {"processingTime": f"{int(between) // 1_000_000} milliseconds"}
