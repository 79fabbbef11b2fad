"""Partials or events: whichever is smaller travels.

With very many keys a slice has hardly more than one event of each, and the partial of one event can be larger than the event.
"""

from __future__ import annotations

from dataclasses import dataclass

#: For so many deltas events travel before partials are tried again.
DELTAS_RAW = 15
#: A place of birth: time and offset.
PLACE_BYTES = 16


@dataclass(slots=True)
class RawChoice:
    """The choice for one family of queries, made anew with each delta.

    >>> choice = RawChoice()
    >>> choice.saw(100, 1600); choice.taken(); choice.weigh(5000); choice.is_raw
    True
    """

    _left: int = 0
    _bytes: int = 0
    _before: int = 0

    @property
    def is_raw(self) -> bool:
        return self._left > 0

    def saw(self, count: int, column_bytes: int) -> None:
        """Events came whose columns take so many bytes."""
        self._bytes += PLACE_BYTES * count + column_bytes

    def taken(self) -> None:
        """What has come together was taken for a delta."""
        self._before, self._bytes = self._bytes, 0
        self._left = max(self._left - 1, 0)

    def weigh(self, partial_bytes: int) -> None:
        """The partials of that delta took so many bytes."""
        if partial_bytes > self._before:
            self._left = DELTAS_RAW
