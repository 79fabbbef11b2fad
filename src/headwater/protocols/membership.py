"""The root's view of its sources: the chains they come in, how far each has come, and from where it may be read again.

A source's watermark is a function of its own sequence and of the decisions that were logged about it; see `SourceBook`. That a
source joins, falls idle or returns is decided here, once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.base.arrays import BoolArray, Int64Array
from headwater.base.count_limits import CountLimits
from headwater.base.source_book import SourceBook
from headwater.base.source_numbers import Cached, SourceNumbers
from headwater.language.times import FOREVER, NEVER, TIME_MAX
from headwater.protocols.advances import Advance, Advances, wrapped
from headwater.protocols.delta import CUT_SUFFIX
from headwater.protocols.messages import TEXT_BYTES_MAX, SourceState

#: A chain with few sources is marked after this many deltas if it is one of many chains, else after each.
DELTAS_PER_MARK_OF_FEW = 4
#: What an assignment says of a source besides its names, about.
SOURCE_BYTES = 100
#: The most sources that come over one link.
SOURCES_PER_LINK_MAX = 1 << 20


@dataclass(slots=True)
class Mark:
    """How far a chain was at some moment: its latest time, and each source's offset and watermark."""

    latest: int
    offsets: Int64Array
    watermarks: Int64Array


@dataclass(slots=True)
class Chain:
    """A chain: its owner, the numbers of its sources, and the latest time of its events."""

    node: str
    sources: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    latest: int = NEVER
    #: Moments from which events may have to be read again, oldest first; kept only while something asks for them.
    marks: list[Mark] = field(default_factory=list)
    #: How many deltas were accepted since the last mark.
    unmarked: int = 0

    def state(self) -> list[Any]:
        marks = [[mark.latest, mark.offsets, mark.watermarks] for mark in self.marks]
        # The empty list: older releases kept the owners before here.
        return [self.node, self.sources, self.latest, marks, [], self.unmarked]


class Membership(SourceBook):
    """All sources of a tree, and the chains that bring them.

    Invariant: a source belongs to one chain for ever, a chain to one node at a time.

    >>> members = Membership()
    >>> members.join("leaf", "leaf-1", [("a", ""), ("b", "")], now_ns=0)
    >>> members.advance({"leaf": Advance.of([0, 1], [3, 1], [wrapped(10 - NEVER), wrapped(7 - NEVER)])}, now_ns=5)
    >>> members.watermark()
    7
    >>> members.decide_idle(now_ns=100, silence_ns=200), members.decide_idle(now_ns=300, silence_ns=200)
    ([], ['b'])
    """

    def __init__(self, limits: CountLimits | None = None) -> None:
        super().__init__()
        self.limits = CountLimits() if limits is None else limits
        self.homes: list[str] = []
        self.chains: dict[str, Chain] = {}
        self._heard: Int64Array = np.empty(0, np.int64)
        self._floors: dict[int, list[tuple[int, int]]] = {}
        self.latest = NEVER  # the latest time of all accepted events
        self.forgotten_events = 0  # events of sources that are done and not known any more (`node/forgetting.py`)
        self._crowds: Cached[SourceNumbers] = Cached(self._crowd)

    # --- sources ---

    def join(self, chain: str, node: str, sources: Sequence[tuple[str, str]], now_ns: int) -> None:
        """A leaf has these sources; those that are known come in the order in which it named them before."""
        self._crowds.forget()
        known = self.chains.setdefault(chain, Chain(node))
        known.node = node
        have = {self.names[number] for number in known.sources.tolist()}
        fresh = [(name, home) for name, home in sources if name not in have]
        count, numbers = len(fresh), np.arange(len(self.names), len(self.names) + len(fresh))
        self.set_joined([name for name, _ in fresh])
        self.homes.extend(home for _, home in fresh)
        known.sources = np.concatenate((known.sources, numbers))
        self._heard = np.concatenate((self._heard, np.full(count, now_ns)))
        for mark in known.marks:
            mark.offsets = np.concatenate((mark.offsets, np.zeros(count, np.int64)))
            mark.watermarks = np.concatenate((mark.watermarks, self.watermarks[numbers]))

    def problems(self, chain: str, sources: Sequence[tuple[str, str]]) -> str | None:
        """Why a chain cannot have these sources: a source belongs to one chain for ever."""
        known = self.chains.get(chain)
        listed = {} if known is None else dict.fromkeys(self.names[number] for number in known.sources.tolist())
        names = [name for name, _ in sources]
        if chain.endswith(CUT_SUFFIX):
            return f"chain {chain!r}: no chain may be called so; {CUT_SUFFIX} is the name of what is cut"
        if len(set(names)) < len(names):
            return f"chain {chain!r} names a source twice"
        fresh = [source for source in sources if source[0] not in listed]
        told = [*((name, self.homes[self.numbers[name]]) for name in listed), *fresh]
        if fresh and len(json.dumps(told)) + SOURCE_BYTES * len(told) > TEXT_BYTES_MAX:
            return f"chain {chain!r} would have {len(told)} sources: give them to several leaves, no message could name them"
        for name in names:
            if name in self.numbers and name not in listed:
                return f"source {name!r} belongs to another chain than {chain!r}; give each source to one leaf"
        return None

    def source_count(self, chains: Iterable[str]) -> int:
        """How many sources these chains have."""
        return sum(len(self.chains[chain].sources) for chain in chains if chain in self.chains)

    def crowd(self, chains: tuple[str, ...]) -> SourceNumbers:
        """The sources of some chains."""
        return self._crowds.of(chains)

    def _crowd(self, chains: tuple[str, ...]) -> SourceNumbers:
        known = [self.chains.get(chain) for chain in chains]
        return SourceNumbers.of([None if chain is None else chain.sources for chain in known])

    def has_all(self, advances: Mapping[str, Advance]) -> bool:
        """Whether all sources that move are there."""
        moved = Advances.of(advances)
        crowd = self.crowd(moved.chains)
        return crowd.are_known and crowd.has(moved.chain, moved.sources)

    def problem(self, advances: Mapping[str, Advance]) -> str | None:
        """Why sources cannot have moved so, None if they can: neither an offset nor a time ever falls."""
        if not self.has_all(advances):
            return "it moves sources that are not there"
        moved = Advances.of(advances)
        numbers = self.moved(moved)
        for now, more in ((self.offsets[numbers], moved.counts), (self.watermarks[numbers], moved.rises)):
            # What does not fit into 64 bits wraps around, and so comes out lower.
            if (now + more < now).any():
                return "an offset or a watermark falls, or does not fit into 64 bits"
        for name, rise in zip(moved.chains, moved.latest.tolist()):
            if rise and not self.chains[name].latest < wrapped(self.chains[name].latest + rise) <= TIME_MAX:
                return "the latest time of a chain falls, or lies behind all times"
        return None

    def chain_of(self, number: int) -> str:
        """The chain of a source."""
        return next(name for name, chain in self.chains.items() if number in chain.sources)

    def returning(self, chain: str, advance: Advance) -> list[int]:
        """Which idle sources bring events: these return first, and what they sent is sliced anew.

        A watermark alone does not bring a source back.
        """
        numbers = self.chains[chain].sources[advance.sources[advance.counts > 0]]
        return [int(number) for number in numbers if not self.active[number]]

    def advance(self, advances: Mapping[str, Advance], now_ns: int) -> None:
        """An accepted delta moved these sources on. All at once: a relay's is of a hundred chains with one source each."""
        moved = Advances.of(advances)
        numbers = self.moved(moved)
        self.offsets[numbers] += moved.counts
        self.watermarks[numbers] += moved.rises
        self._heard[numbers] = now_ns
        self.follow()
        ended = (moved.rises != 0) & (self.watermarks[numbers] == FOREVER)
        if ended.any():
            self._remember_ends(moved, numbers, ended)
        for name, rise in zip(moved.chains, moved.latest.tolist()):
            if rise:
                chain = self.chains[name]
                chain.latest = wrapped(chain.latest + rise)
                self.latest = max(self.latest, chain.latest)

    def _remember_ends(self, moved: Advances, numbers: Int64Array, ended: BoolArray) -> None:
        """Sources have ended: no source tells its end where a flush has put it, so whoever reads again hears it from here."""
        for place in np.flatnonzero(ended).tolist():
            number = int(numbers[place])
            if self.chains[moved.chains[int(moved.chain[place])]].marks:
                self._floors.setdefault(number, []).append((int(self.offsets[number]), FOREVER))

    def moved(self, advances: Advances) -> Int64Array:
        """The numbers of the sources that move."""
        return self.crowd(advances.chains).at(advances.chain, advances.sources)

    def hear(self, advances: Mapping[str, Advance], now_ns: int) -> None:
        """These sources are not silent, though what they sent was rejected and has to be sent again."""
        self._heard[self.moved(Advances.of(advances))] = now_ns

    def watermark(self) -> int:
        """The minimum over the active sources; it never falls."""
        return self.group

    def finish(self) -> None:
        """The end of the stream."""
        self.group = FOREVER

    # --- decisions ---

    def decide_idle(self, now_ns: int, silence_ns: int, is_ending: bool = False) -> list[str]:
        """Stop waiting for sources that have been silent for ``silence_ns``; returns their names."""
        silent = self._held_up_by(is_ending) & (self._heard <= now_ns - silence_ns)
        numbers = np.flatnonzero(silent).tolist()
        self.set_idle(numbers)
        return [self.names[number] for number in numbers]

    def turn_back(self, now_ns: int) -> bool:
        """Nobody was heard later than now, whatever it seems: a clock may begin anew with its machine. Whether it did seem so."""
        ahead = self._heard > now_ns
        self._heard[ahead] = now_ns
        return bool(ahead.any())

    def _held_up_by(self, is_ending: bool) -> BoolArray:
        """The sources that may have to be idle: active, not ended, and behind another, unless the stream is ending.

        Nobody waits for whoever is furthest ahead. Were it idle as well, the watermark of all would stay behind it for as long as
        all are silent; and a leaf that holds its events until that rises, and does not read on, is silent for ever.
        """
        waited_for: BoolArray = self.active & (self.watermarks != FOREVER)
        if waited_for.any() and not is_ending:
            waited_for &= self.watermarks < self.watermarks[self.active].max()
        return waited_for

    def silent_at(self, silence_ns: int, is_ending: bool = False) -> int | None:
        """When the next source will have been silent for ``silence_ns``; None if none is waited for."""
        waited_for = self._held_up_by(is_ending)
        return int(self._heard[waited_for].min()) + silence_ns if waited_for.any() else None

    def holding_up(self) -> list[str]:
        """The sources for which all others wait: those of the lowest watermark that have not ended.

        >>> members = Membership()
        >>> members.join("leaf", "leaf-1", [("a", ""), ("b", "")], now_ns=0)
        >>> members.advance({"leaf": Advance.of([0], [3], [wrapped(10 - NEVER)])}, now_ns=5)
        >>> members.holding_up()
        ['b']
        """
        waited_for = self.active & (self.watermarks != FOREVER)
        if not waited_for.any():
            return []
        lowest = waited_for & (self.watermarks == self.watermarks[waited_for].min())
        return [self.names[number] for number in np.flatnonzero(lowest).tolist()]

    def decide_return(self, numbers: Sequence[int], now_ns: int) -> None:
        """Wait for these again; what is read of them again has to meet the same watermark at the same offset."""
        for number in numbers:
            self._heard[number] = now_ns
            self.set_returned([number])
            if self.chains[self.chain_of(number)].marks:
                decision = self.decisions[-1]
                self._floors.setdefault(number, []).append((decision.offset, decision.time))

    # --- where to go on ---

    def mark(self, chain: str) -> None:
        """Remember this moment: events may have to be read from here again."""
        self._mark([self.chains[chain]])

    def _mark(self, chains: Sequence[Chain]) -> None:
        """Mark several chains at once: one lookup for all takes as long as one for each."""
        numbers = np.concatenate([chain.sources for chain in chains])
        offsets, watermarks, begin = self.offsets[numbers], self.watermarks[numbers], 0
        for chain in chains:
            end = begin + len(chain.sources)
            chain.unmarked = 0
            chain.marks.append(Mark(chain.latest, offsets[begin:end], watermarks[begin:end]))
            begin = end

    def mark_sometimes(self, chains: Sequence[str]) -> None:
        """Mark chains after a delta, not each time: fewer marks only mean that a little more is read again.

        With few sources a mark is a few numbers, so there may be many.
        """
        few, many_deltas = self.limits.sources_marked_often, self.limits.deltas_per_mark
        due, few_deltas = [], 1 if len(chains) <= few else DELTAS_PER_MARK_OF_FEW
        for name in chains:
            chain = self.chains[name]
            chain.unmarked += 1
            if chain.unmarked < few_deltas:
                continue
            if chain.unmarked >= many_deltas or len(chain.sources) <= few:
                due.append(chain)
        if due:
            self._mark(due)

    def settle(self, time: int) -> None:
        """Forget marks that are not needed any more, as nothing before ``time`` is asked for."""
        for chain in self.chains.values():
            marks, count = chain.marks, 0
            while count < len(marks) and marks[count].latest < time:
                count += 1
            if count > 1:
                del marks[: count - 1]
                if self._floors:
                    self._drop_floors(chain)

    def forget_marks(self) -> None:
        """Forget all marks: nothing will be read again."""
        for chain in self.chains.values():
            chain.marks.clear()

    def _drop_floors(self, chain: Chain) -> None:
        """Forget floors before the first mark: its watermarks contain them."""
        first = dict(zip(chain.sources.tolist(), chain.marks[0].offsets.tolist(), strict=True))
        for number in [number for number in self._floors if number in first]:
            self._floors[number] = [floor for floor in self._floors[number] if floor[0] >= first[number]]

    def states(self, chain: str, reads_again: bool = True) -> list[SourceState]:
        """Where each source of a chain goes on, and from where it is read once more, if it is."""
        known = self.chains[chain]
        hold = known.marks[0] if known.marks and reads_again else None
        now = self.offsets[known.sources], self.watermarks[known.sources]
        begin = now if hold is None else (hold.offsets, hold.watermarks)
        found = []
        for number, at, mark, start, before in zip(*(c.tolist() for c in (known.sources, *now, *begin)), strict=True):
            floors = () if hold is None else self._floors.get(number, ())
            behind = tuple(floor for floor in floors if floor[0] >= start)
            found.append(SourceState(self.names[number], at, mark, start, before, behind, self.homes[number]))
        return found

    # --- snapshots ---

    def state(self) -> dict[str, Any]:
        return {
            "names": self.names,
            "homes": self.homes,
            "chains": [[name, *chain.state()] for name, chain in self.chains.items()],
            "decisions": self.decision_rows(),
            "arrays": [self.offsets, self.watermarks, self.active, self._heard],
            "floors": [[number, [list(floor) for floor in floors]] for number, floors in self._floors.items()],
            "group": [self.group, self.finite],
            **({"forgotten": self.forgotten_events} if self.forgotten_events else {}),
        }

    @classmethod
    def restored(cls, state: dict[str, Any], limits: CountLimits | None = None) -> Membership:
        members = cls(limits)
        *columns, members._heard = state["arrays"]
        members.restore_book(state["names"], state["decisions"], *columns)
        members.homes = list(state["homes"])
        for name, node, sources, latest, marks, _, unmarked in state["chains"]:
            members.chains[name] = Chain(node, sources, latest, [Mark(*mark) for mark in marks], unmarked)
        members._floors = {number: [(at, time) for at, time in floors] for number, floors in state["floors"]}
        members.group, members.finite = state["group"]
        members.forgotten_events = state.get("forgotten", 0)
        members.latest = max((chain.latest for chain in members.chains.values()), default=NEVER)
        return members
