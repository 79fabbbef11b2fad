"""Limits of count windows over many nodes: how large pieces are, when events travel as they are, what is waited for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CountLimits:
    """The limits of all nodes of a tree. Results do not depend on them; speed and bytes do.

    >>> CountLimits(piece_min=64, piece_max=32)
    Traceback (most recent call last):
    AssertionError: no piece can have at least 64 and at most 32 events
    """

    #: The fewest and the most events of a piece, however sure a forecast is.
    piece_min: int = 32
    piece_max: int = 1 << 20
    #: The most events of a piece as long as there is no plan.
    unplanned_piece_max: int = 1 << 13
    #: The pieces of a leaf that lives for one batch only are smaller, and a look into them is answered raw: so one is enough.
    brief_piece_max: int = 1 << 11
    brief_raw_max: int = 1 << 12
    #: At most this many events that no window waits for are gathered.
    gathered_max: int = 1 << 18
    #: This many at once are cut into pieces as they come: less is left to do once a window waits for them.
    early_min: int = 1 << 13
    #: The number of parts into which a piece is cut that the root looks into.
    look_parts: int = 32
    #: Keys with no more events in a piece have no pieces: their events travel.
    key_raw_max: int = 4
    #: The number of pieces per window and leaf where each of them may hold the end.
    monitor_pieces: int = 16
    #: All events of a window with fewer per leaf than this travel: partials would be no smaller.
    raw_events_max: int = 192
    #: If more events of a leaf than this would travel raw around a window's end, looking into small pieces is cheaper.
    raw_zone_max: float = 25_000
    #: A look is answered with raw events up to about this many (more bytes, fewer round trips), by what is preferred.
    raw_answer_speed: int = 1 << 12
    raw_answer_bytes: int = 1 << 7
    #: The number of parts into which raw events that may hold a cut are cut at once, if other leaves have to be asked as well.
    local_parts: int = 16
    #: Windows with no more events are small: with a preference for speed all of their events travel.
    small_max: int = 1 << 15
    #: The number of deltas of a chain after which the root sets a mark from which events can be read again.
    deltas_per_mark: int = 16
    #: With at most this many sources it sets one after each delta: that costs nothing.
    sources_marked_often: int = 8

    def __post_init__(self) -> None:
        smallest = min(self.piece_max, self.unplanned_piece_max, self.brief_piece_max)
        assert 1 <= self.piece_min <= smallest, (
            f"no piece can have at least {self.piece_min} and at most {smallest} events"
        )
        assert self.early_min <= self.gathered_max, "what is cut early is part of what is gathered"
        assert min(self.look_parts, self.local_parts) >= 2, "a piece that is cut into one part is cut for ever"
        assert min(self.monitor_pieces, self.deltas_per_mark) >= 1, "nothing would ever be cut, or marked"

    def raw_answer(self, prefer: str) -> int:
        """The largest answer in raw events, by what is preferred: speed or bytes."""
        return self.raw_answer_speed if prefer == "speed" else self.raw_answer_bytes
