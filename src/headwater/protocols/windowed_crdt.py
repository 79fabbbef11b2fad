"""Windowed CRDTs: state that nodes without a root share, as a lattice of prefixes.

What is known of a chain is its *prefix*: everything that its first events add, cut at canonical steps. It is a function of these
events, of the decisions about the chain and of the program, so two prefixes of one chain are never in conflict: one is an earlier
form of the other, and the later one counts. A node's knowledge is one prefix for each chain; merging is taking the later of each.
So every aggregate is a CRDT, and nothing is ever counted twice: a contribution is keyed by its chain and replaced, never added.

What parts and private states hold is opaque here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from headwater.base.packing import Bytes, Reader, Writer
from headwater.language.times import FOREVER, NEVER
from headwater.protocols.frames import FrameError
from headwater.protocols.steps import END, START

VERSION = 1
#: What is added to an index still fits into 64 bits.
INDEX_MAX = 1 << 62


class Version(NamedTuple):
    """How far a prefix is: under which program, with how many decisions about its chain, up to which index (`at`).

    A decision that is newer counts more than events that were taken in without it.
    """

    generation: int
    decisions: int
    at: int


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a prefix ends: the watermark and the latest time behind its events, what the runner needs to go on there, and how
    many rows of output the chain has given."""

    watermark: int = NEVER
    latest: int = NEVER
    private: bytes = b""
    rows: int = 0


@dataclass(frozen=True, slots=True)
class StepPart:
    """What a chain adds to a step: everything between the index at which it reached the step before and ``index``.

    The event at the index took the chain over all steps from ``low`` to ``high`` at once; to the others it adds nothing.
    ``reach`` is where a runner may begin that goes on behind it.
    """

    low: int
    high: int
    index: int
    reach: Reach
    parts: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """It was decided that a chain reaches a step with what it has up to an index, and that nothing beyond counts until then."""

    index: int
    step: int


@dataclass(frozen=True, slots=True)
class PrefixDelta:
    """What a stretch of a chain adds to its prefix; it applies only where the prefix ends at ``start``.

    It lies within one step: if it takes the chain to further ones, ``steps`` says to which, and it ends there.
    """

    chain: str
    generation: int
    decisions: int
    start: int
    end: int
    reach: Reach
    parts: tuple[bytes, ...] = ()
    steps: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Prefix:
    """Everything that a chain's events up to an index add. Cuts up to the step ``base`` are not in it any more.

    >>> prefix = Prefix(Version(1, 0, 0)).extended(PrefixDelta("p", 1, 0, 0, 3, Reach(12, 12), (b"x",), (START + 1, 1)))
    >>> prefix.version.at, prefix.step, [part.high for part in prefix.closed]
    (3, 1, [1])
    """

    version: Version
    reach: Reach = Reach()
    closed: tuple[StepPart, ...] = ()
    #: What came since the last cut.
    open: tuple[bytes, ...] = ()
    base: int = START
    #: The last step that was reached.
    step: int = START
    #: Where the chain was decided to end, for good or until it is decided that it returns.
    limit: Limit | None = None

    def objection(self, delta: PrefixDelta) -> str | None:
        """Why a delta does not apply; None if it does."""
        mine = self.version
        if (delta.generation, delta.decisions) != mine[:2]:
            return "older" if (delta.generation, delta.decisions) < mine[:2] else "newer"
        if delta.end <= mine.at:
            return "duplicate"
        if delta.start != mine.at:
            return "gap" if delta.start > mine.at else "overlap"
        if self.limit is not None and delta.end > self.limit.index:
            return "beyond"
        if delta.steps is not None and delta.steps[0] != self.step + 1:
            return "misfit"
        return None

    def extended(self, delta: PrefixDelta) -> Prefix:
        """The prefix with what a delta adds, to which there must be no objection."""
        made = replace(
            self, version=self.version._replace(at=delta.end), reach=delta.reach, open=(*self.open, *delta.parts)
        )
        return (made if delta.steps is None else made._closed(delta.steps[1]))._settled()

    def _closed(self, high: int) -> Prefix:
        """The prefix with what is open as the part that takes it to a step."""
        part = StepPart(self.step + 1, high, self.version.at, self.reach, self.open)
        return replace(self, closed=(*self.closed, part), open=(), step=high)

    def _settled(self) -> Prefix:
        """The prefix, which reaches the step of its limit where it comes to it."""
        if self.limit is None or self.version.at < self.limit.index or self.step >= self.limit.step:
            return self
        watermark = FOREVER if self.limit.step == END else self.reach.watermark
        return replace(self, reach=replace(self.reach, watermark=watermark))._closed(self.limit.step)

    # --- decisions ---

    def limited(self, limit: Limit) -> Prefix:
        """The prefix once it was decided that its chain comes to a limit; it must not go beyond that yet."""
        assert self.version.at <= limit.index, f"{self.version} is beyond {limit}"
        return replace(self._decided(), limit=limit)._settled()

    def returned(self, step: int, time: int) -> Prefix:
        """The prefix once it was decided that its chain, which has come to its limit, goes on there: it has reached this step,
        of this time, with nothing more, and none of its events is older than that from now on."""
        made = replace(
            self._decided(), limit=None, reach=replace(self.reach, watermark=max(self.reach.watermark, time))
        )
        return made._closed(step) if step > self.step else made

    def _decided(self) -> Prefix:
        return replace(self, version=self.version._replace(decisions=self.version.decisions + 1))

    def covering(self, step: int) -> StepPart | None:
        """The cut with which the chain reached a step; None if it has not, or if that is not in here any more."""
        return next((part for part in self.closed if part.low <= step <= part.high), None)

    def without(self, step: int) -> Prefix:
        """The prefix without the cuts that nobody needs who has executed all steps up to this one."""
        if step <= self.base:
            return self
        return replace(self, closed=tuple(part for part in self.closed if part.high > step), base=step)

    def bare(self) -> Prefix:
        """The prefix without what it adds: from where a runner goes on."""
        return replace(self, closed=(), open=())


@dataclass(slots=True)
class Prefixes:
    """One prefix for each chain: a join semilattice, for those of a chain are in order.

    >>> one, other = Prefixes.of(["p", "q"], 1), Prefixes.of(["p", "q"], 1)
    >>> delta = PrefixDelta("p", 1, 0, 0, 3, Reach(5, 5), (b"x",))
    >>> one.apply(delta), one.apply(delta)
    (None, 'duplicate')
    >>> other.merge(one.chains), other.merge(one.chains)
    (['p'], [])
    """

    chains: dict[str, Prefix] = field(default_factory=dict)

    @classmethod
    def of(cls, chains: Iterable[str], generation: int) -> Prefixes:
        """Nothing is known of these chains yet."""
        return cls({chain: Prefix(Version(generation, 0, 0)) for chain in sorted(chains)})

    def apply(self, delta: PrefixDelta) -> str | None:
        """Add a delta to its prefix; returns why that is not possible."""
        prefix = self.chains.get(delta.chain)
        if prefix is None:
            return "unknown"
        objection = prefix.objection(delta)
        if objection is None:
            self.chains[delta.chain] = prefix.extended(delta)
        return objection

    def merge(self, others: Mapping[str, Prefix], executed: int = START) -> list[str]:
        """Take over the prefixes that are further than ours; returns their chains.

        One whose cuts begin behind ``executed``, the last step whose rows are known here, cannot be used before these are.
        """
        taken = []
        for chain, other in sorted(others.items()):
            mine = self.chains.get(chain)
            if mine is not None and other.version > mine.version and other.base <= executed:
                self.chains[chain] = other
                taken.append(chain)
        return taken

    def without(self, step: int) -> None:
        """Forget the cuts up to a step."""
        for chain, prefix in self.chains.items():
            self.chains[chain] = prefix.without(step)


# --- byte forms ---


def delta_to_bytes(delta: PrefixDelta) -> bytes:
    """
    >>> delta = PrefixDelta("p", 1, 0, 0, 3, Reach(5, 7, b"s"), (b"x",), (START + 1, 4))
    >>> delta_from_bytes(delta_to_bytes(delta)) == delta
    True
    """
    writer = Writer(VERSION).blob(delta.chain.encode())
    writer.number(delta.generation).number(delta.decisions).number(delta.start).number(delta.end - delta.start)
    _put_reach(writer, delta.reach)
    _put_parts(writer, delta.parts)
    writer.number(delta.steps is not None)
    if delta.steps is not None:
        writer.signed(delta.steps[0]).number(delta.steps[1] - delta.steps[0])
    return writer.finish()


def delta_from_bytes(data: Bytes) -> PrefixDelta:
    """The delta of which these are the bytes; anything else is a `FormatError`."""
    with Reader(data, "a delta", VERSION) as reader:
        chain = reader.blob().decode()
        generation, decisions, start = reader.number(), reader.number(), reader.number()
        end = start + reader.number()
        reach, parts = _take_reach(reader), _take_parts(reader)
        steps = None
        if reader.number():
            low = reader.signed()
            steps = low, low + reader.number()
    if end <= start or generation < 1:
        raise FrameError(f"a delta of {chain!r} covers nothing")
    _check_places([generation, decisions, end], [*_times(reach), *(steps or ())])
    return PrefixDelta(chain, generation, decisions, start, end, reach, parts, steps)


def prefix_to_bytes(prefix: Prefix) -> bytes:
    """
    >>> prefix = Prefix(Version(1, 0, 3), Reach(5, 7), (StepPart(2, 4, 3, Reach(5, 7), (b"x",)),), (b"y",), 1, 4)
    >>> prefix_from_bytes(prefix_to_bytes(prefix)) == prefix
    True
    """
    writer = Writer(VERSION)
    for number in prefix.version:
        writer.number(number)
    _put_reach(writer, prefix.reach)
    _put_parts(writer, prefix.open)
    writer.signed(prefix.base).signed(prefix.step).number(prefix.limit is not None)
    if prefix.limit is not None:
        writer.number(prefix.limit.index).signed(prefix.limit.step)
    writer.number(len(prefix.closed))
    for part in prefix.closed:
        writer.signed(part.low).number(part.high - part.low).number(part.index)
        _put_reach(writer, part.reach)
        _put_parts(writer, part.parts)
    return writer.finish()


def prefix_from_bytes(data: Bytes) -> Prefix:
    """The prefix of which these are the bytes; anything else is a `FormatError`."""
    with Reader(data, "a prefix", VERSION) as reader:
        version = Version(reader.number(), reader.number(), reader.number())
        reach, parts = _take_reach(reader), _take_parts(reader)
        base, step = reader.signed(), reader.signed()
        limit = Limit(reader.number(), reader.signed()) if reader.number() else None
        closed = tuple([_take_step_part(reader) for _ in range(reader.count())])
    follow = all(part.low == before.high + 1 for before, part in pairwise(closed))
    if not follow or version.generation < 1 or (closed and closed[-1].high != step):
        raise FrameError("the parts of a prefix do not follow one another")
    if limit is not None and version.at > limit.index:
        raise FrameError("a prefix goes beyond its limit")
    ends = [limit.step] if limit is not None else []
    reaches = [reach, *(part.reach for part in closed)]
    places = [step, base, *ends, *(part.low for part in closed), *(time for one in reaches for time in _times(one))]
    _check_places([*version, *(part.index for part in closed), *(one.rows for one in reaches)], places)
    return Prefix(version, reach, closed, parts, base, step, limit)


def _times(reach: Reach) -> tuple[int, int]:
    return reach.watermark, reach.latest


def _check_places(indexes: Iterable[int], times: Iterable[int]) -> None:
    """Nobody has counted further, and times and steps have 64 bits."""
    if max(indexes, default=0) > INDEX_MAX or not all(NEVER <= time <= FOREVER for time in times):
        raise FrameError("an index, a step or a time is further than any can be")


def _take_step_part(reader: Reader) -> StepPart:
    low = reader.signed()
    high, index = low + reader.number(), reader.number()
    return StepPart(low, high, index, _take_reach(reader), _take_parts(reader))


def _put_reach(writer: Writer, reach: Reach) -> None:
    writer.signed(reach.watermark).signed(reach.latest).blob(reach.private).number(reach.rows)


def _take_reach(reader: Reader) -> Reach:
    return Reach(reader.signed(), reader.signed(), reader.blob(), reader.number())


def _put_parts(writer: Writer, parts: tuple[bytes, ...]) -> None:
    writer.number(len(parts))
    for part in parts:
        writer.blob(part)


def _take_parts(reader: Reader) -> tuple[bytes, ...]:
    return tuple([reader.blob() for _ in range(reader.count())])
