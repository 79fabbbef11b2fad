"""Limits of count windows over many nodes: how large pieces are, when events travel as they are, what is waited for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CountLimits:
    """One description for all nodes of a tree. Results are the same with any; speed and bytes are not.

    >>> CountLimits(piece_min=64, piece_max=32)
    Traceback (most recent call last):
    AssertionError: no piece can have at least 64 and at most 32 events
    """

    #: Pieces have no fewer events than this, and no more however sure a forecast is ...
    piece_min: int = 32
    piece_max: int = 1 << 20
    #: ... or as long as there is no plan.
    unplanned_piece_max: int = 1 << 13
    #: A leaf that lives for one batch only has smaller ones, and looked into they are answered raw: so one look is enough.
    brief_piece_max: int = 1 << 11
    brief_raw_max: int = 1 << 12
    #: Events that no window waits for are gathered, but no more than this ...
    gathered_max: int = 1 << 18
    #: ... and so many at once are cut into pieces as they come: less is left to do once somebody waits.
    early_min: int = 1 << 13
    #: A piece that is looked into is cut into so many.
    look_parts: int = 32
    #: Keys with no more events in a piece have no pieces: their events travel.
    key_raw_max: int = 4
    #: Pieces of a window and leaf where every one may hold the end.
    monitor_pieces: int = 16
    #: Of a window with fewer events per leaf, all travel: partials would be no smaller.
    raw_events_max: int = 192
    #: If more events of a leaf than this would travel raw around a window's end, looking into small pieces is cheaper.
    raw_zone_max: float = 25_000
    #: Looked into, a piece is answered with raw events if it is about so many at most: more bytes, and fewer flows.
    raw_answer_speed: int = 1 << 12
    raw_answer_bytes: int = 1 << 7
    #: Raw events that may hold a cut are cut into so many parts at once, if others have to be asked where the cut is.
    local_parts: int = 16
    #: Windows with no more events are small: with a preference for speed all of their events travel.
    small_max: int = 1 << 15
    #: After so many deltas of a chain the root sets a mark from which events can be read again ...
    deltas_per_mark: int = 16
    #: ... unless it has so few sources that one after each delta costs nothing.
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
