"""What an event is to a query, from its time and the watermark of its own source just before it."""

from __future__ import annotations

import numpy as np

from headwater.base.arrays import Int64Array
from headwater.engine.slices.edges import fixed_spec, spec_table
from headwater.engine.windows.late import DROPPED, LATE, MEMBER, OUTSIDE, stand_fixed
from headwater.engine.windows.registered import Registered
from headwater.language.times import FOREVER, NEVER
from headwater.language.windows import Band, CountWindow, Session, Sliding


def standing(entry: Registered, times: Int64Array, watermarks: Int64Array) -> Int64Array:
    """MEMBER, LATE, DROPPED or OUTSIDE for each event, by its best case.

    >>> from headwater.language.aggregations import count
    >>> from headwater.language.query import query
    >>> from headwater.language.windows import session
    >>> entry = Registered(query("s", session(10), n=count(), lateness=5), 0)
    >>> standing(entry, np.array([90, 88, 80]), np.array([100, 100, 100])).tolist() == [MEMBER, LATE, DROPPED]
    True
    """
    window, lateness = entry.query.window, entry.query.lateness
    if isinstance(window, Sliding | Band):
        return stand_fixed(spec_table([fixed_spec(window, entry.begin, entry.stop)])[0], lateness, times, watermarks)
    allowed = 0 if isinstance(window, CountWindow) else lateness
    reach = times + (window.gap if isinstance(window, Session) else 0)
    what = np.where(reach >= watermarks, MEMBER, np.where(reach + allowed >= watermarks, LATE, DROPPED))
    return np.where(times < entry.begin, OUTSIDE, what).astype(np.int64)


def surely_members(entry: Registered, low: int, watermarks: Int64Array | int) -> bool:
    """Whether events from ``low`` on are members without a closer look: nobody is late, and windows leave no time out."""
    window = entry.query.window
    gapless = not isinstance(window, Band) and not (isinstance(window, Sliding) and window.slide > window.size)
    return gapless and (entry.begin, entry.stop) == (NEVER, FOREVER) and bool(low >= np.max(watermarks))
