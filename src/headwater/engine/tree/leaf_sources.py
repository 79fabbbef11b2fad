"""The sources of a leaf: where each goes on, which events it reads again, and how much of that the root was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.engine.intake.watermarks import Source, Watermarks
from headwater.language.times import FOREVER, NEVER


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a source goes on; events from ``hold`` on are read once more, for cuts only (see `SourceState`)."""

    name: str
    home: str
    offset: int
    watermark: int
    hold: int
    hold_watermark: int
    floors: Sequence[tuple[int, int]] = ()


@dataclass(slots=True)
class Moved:
    """How far sources went on since the last time, by number."""

    sources: list[int]
    counts: list[int]
    rises: list[int]
    latest: int


class LeafSources:
    """How far each source of a leaf was read, and told to the root: never less than what the root has accepted.

    >>> sources = LeafSources(Watermarks(None), [Standing("a", "", 5, 50, 3, 30)], 49)
    >>> sources.next_offset("a"), sources.is_past_reread("a"), sources.next_stop("a", 9)
    (3, False, 5)
    >>> sources.move_to("a", 5)
    >>> sources.is_past_reread("a"), sources["a"].watermark
    (True, 50)
    """

    def __init__(self, watermarks: Watermarks, standings: Sequence[Standing], latest: int) -> None:
        self.latest = latest  # the time of the latest event
        self._watermarks = watermarks
        self._standing: dict[str, Standing] = {}
        self._stops: dict[str, list[tuple[int, int]]] = {}  # offsets at which watermarks rise, by the root's word
        self._told: dict[str, tuple[int, int]] = {}
        self._told_latest = latest
        self.news: dict[str, None] = {}  # sources of which there is something to tell
        for standing in standings:
            origin = watermarks.source(standing.name, standing.home)
            origin.watermark = standing.hold_watermark
            self._standing[standing.name] = standing
            self._stops[standing.name] = [(standing.offset, standing.watermark), *standing.floors]
            self._told[standing.name] = standing.offset, standing.watermark
            self.move_to(standing.name, standing.hold)

    def __getitem__(self, source: str) -> Source:
        return self._watermarks.sources[source]

    def __contains__(self, source: str) -> bool:
        return source in self._standing

    def __len__(self) -> int:
        return len(self._standing)

    # --- events that are read, some of them again ---

    def next_offset(self, source: str) -> int:
        """The offset of the event that this source has to give next."""
        return self[source].next_offset

    def resume_offset(self, source: str) -> int:
        """The offset up to which events were taken in, at least those that were accepted."""
        return max(self.next_offset(source), self._standing[source].offset)

    def is_past_reread(self, source: str) -> bool:
        """Whether everything that was accepted before has been read again."""
        return self.next_offset(source) >= self._standing[source].offset

    def are_past_reread(self) -> bool:
        return all(map(self.is_past_reread, self._standing))

    def needs_care(self, source: str, offset: int) -> bool:
        """Whether a source is still read again at ``offset``, or a watermark that was decided lies ahead."""
        return any(at > offset for at, _ in self._stops[source])

    def next_stop(self, source: str, end: int) -> int:
        """The next offset at which something changes, at most ``end``."""
        start = self.next_offset(source)
        return min([end, *(at for at, _ in self._stops[source] if at > start)])

    def move_to(self, source: str, offset: int) -> None:
        """Events up to ``offset`` were read; watermarks that the root has decided on begin at their offset."""
        origin = self[source]
        origin.next_offset = offset
        origin.watermark = max([origin.watermark, *(time for at, time in self._stops[source] if at == offset)])

    # --- watermarks ---

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come of any source."""
        return bool((self._watermarks.watermarks == FOREVER).all())

    @property
    def lowest_watermark(self) -> int:
        """Nothing that comes has an earlier time."""
        marks = self._watermarks.watermarks
        return int(marks.min()) if len(marks) else NEVER

    # --- what the root is told ---

    def told(self) -> tuple[dict[str, tuple[int, int]], int]:
        """The offset and the watermark of each source, and the latest time."""
        return dict(self._told), self._told_latest

    def moved(self, *sources: str) -> None:
        """There is something to tell of these sources."""
        self.news |= dict.fromkeys(sources)

    def moved_all(self) -> None:
        self.news |= dict.fromkeys(self._standing)

    def take_moves(self) -> Moved:
        """How far the sources went on since the last time."""
        moved = Moved([], [], [], self.latest - self._told_latest)
        self._told_latest = self.latest
        marks = self._watermarks
        numbers = sorted(marks.numbers[name] for name in self.news)
        for number, *at in zip(numbers, marks.offsets[numbers].tolist(), marks.watermarks[numbers].tolist()):
            name = marks.names[number]
            offset, watermark = self._told[name]
            # Before that offset it is still reading again what was accepted.
            if at[0] >= self._standing[name].offset and at != [offset, watermark]:
                moved.sources.append(number)
                moved.counts.append(at[0] - offset)
                moved.rises.append(at[1] - watermark)
                self._told[name] = at[0], at[1]
        self.news = {}
        return moved
