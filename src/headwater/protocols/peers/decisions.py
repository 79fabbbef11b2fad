"""The decision log, as one node sees it: what is decided once for all where no root is.

Entries are numbered from 0, and the first entry with a number counts, for everybody. Who may write which number is the matter of
the store that the log lies in; here entries are learned, from the store or by gossip, in any order and however often. They take
effect in the order of their numbers, so two nodes that know the same entries agree on all that is said here.

An entry may say what was decided before: two nodes saw the same events come back, and one of them was late to notice. Then the
first counts. A step is closed once and never behind the stop, a partition returns only if it is out, and ends once; the job stops
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, Self

from headwater.base.packing import Bytes, Reader, Writer
from headwater.errors import FormatError, HeadwaterError
from headwater.protocols.delta import CHAINS_MAX

#: Of the byte forms of entries and of logs.
VERSION = 1
#: No step and no index is further from 0: what is added to it still fits into 64 bits.
PLACE_MAX = 1 << 62


class DecisionError(HeadwaterError, ValueError):
    """An entry that cannot be: another has its number, so one of them is of another job or the store did not keep the first."""


# --- entries ---


@dataclass(frozen=True, slots=True)
class StepClosed:
    """The step is closed without waiting for the partitions that are out: of each only the events before an index count in it.

    >>> StepClosed(7, out={"a": -1})
    Traceback (most recent call last):
    ValueError: StepClosed: index is -1: give a number from 0 to 4611686018427387904
    """

    step: int
    out: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_place(self, "step", self.step)
        for index in self.out.values():
            _check_place(self, "index", index, least=0)


@dataclass(frozen=True, slots=True)
class PartitionReturned:
    """A partition that was out goes on at this index, with a watermark of at least the time of the step."""

    partition: str
    index: int
    step: int

    def __post_init__(self) -> None:
        _check_place(self, "index", self.index, least=0)
        _check_place(self, "step", self.step)


@dataclass(frozen=True, slots=True)
class PartitionEnded:
    """The inputs of these partitions are complete at these indexes."""

    ends: Mapping[str, int]

    def __post_init__(self) -> None:
        if not self.ends:
            raise ValueError("PartitionEnded: ends is empty: name at least one partition with the index of its end")
        for index in self.ends.values():
            _check_place(self, "index", index, least=0)


@dataclass(frozen=True, slots=True)
class JobStopped:
    """All stop after this step."""

    step: int

    def __post_init__(self) -> None:
        _check_place(self, "step", self.step)


LogEntry = StepClosed | PartitionReturned | PartitionEnded | JobStopped


def _check_place(entry: object, name: str, place: int, least: int = -PLACE_MAX) -> None:
    if not least <= place <= PLACE_MAX:
        raise ValueError(f"{type(entry).__name__}: {name} is {place}: give a number from {least} to {PLACE_MAX}")


def entry_to_bytes(entry: LogEntry) -> bytes:
    """The byte form; equal entries have equal bytes.

    >>> entry_from_bytes(entry_to_bytes(StepClosed(-3, {"p": 4, "q": 0})))
    StepClosed(step=-3, out={'p': 4, 'q': 0})
    """
    kind = _KINDS[type(entry)]
    writer = Writer(VERSION).number(kind)
    _FORMS[kind][1](writer, entry)
    return writer.finish()


def entry_from_bytes(data: Bytes) -> LogEntry:
    """The entry of which this is the byte form; anything else is a `FormatError`."""
    with Reader(data, "an entry of the decision log", VERSION) as reader:
        kind = reader.number()
        if kind not in _FORMS:
            raise FormatError(f"no entry of the decision log has the kind {kind}")
        entry: LogEntry = _FORMS[kind][2](reader)
    _check_canonical(entry_to_bytes(entry), data, "an entry of the decision log")
    return entry


def _check_canonical(written: bytes, data: Bytes, what: str) -> None:
    if written != bytes(data):
        raise FormatError(f"{what} is written in another way than this release writes it")


def _write_closed(writer: Writer, entry: StepClosed) -> None:
    _write_places(writer.signed(entry.step), entry.out)


def _write_return(writer: Writer, entry: PartitionReturned) -> None:
    writer.blob(entry.partition.encode()).number(entry.index).signed(entry.step)


def _write_places(writer: Writer, places: Mapping[str, int]) -> None:
    names = sorted(places)
    writer.texts(names)
    for name in names:
        writer.signed(places[name])


def _write_step(writer: Writer, step: int | None) -> None:
    """A step, or that there is none."""
    writer.number(step is not None).signed(step or 0)


def _read_step(reader: Reader) -> int | None:
    is_there, step = reader.number(), reader.signed()
    return step if is_there else None


def _read_places(reader: Reader) -> dict[str, int]:
    return {name: reader.signed() for name in reader.texts(CHAINS_MAX)}


#: The number under which each kind is written, never to be used again for another, and how it is written and read.
_FORMS: Final[dict[int, tuple[type, Callable[[Writer, Any], object], Callable[[Reader], Any]]]] = {
    1: (StepClosed, _write_closed, lambda reader: StepClosed(reader.signed(), _read_places(reader))),
    2: (
        PartitionReturned,
        _write_return,
        lambda reader: PartitionReturned(reader.blob().decode(), reader.number(), reader.signed()),
    ),
    3: (
        PartitionEnded,
        lambda writer, entry: _write_places(writer, entry.ends),
        lambda reader: PartitionEnded(_read_places(reader)),
    ),
    4: (JobStopped, lambda writer, entry: writer.signed(entry.step), lambda reader: JobStopped(reader.signed())),
}
_KINDS: Final = {made: kind for kind, (made, _, _) in _FORMS.items()}


# --- what entries come to ---


@dataclass(slots=True)
class Decided:
    """What the first entries of a log come to, taken one after the other."""

    #: The last step that was closed, and the one after which all stop.
    closed: int | None = None
    stop: int | None = None
    #: The partitions that are out, each with the first step that was closed without it.
    out: dict[str, int] = field(default_factory=dict)
    #: Of each partition all its returns, in their order: whoever begins before them meets each.
    returns: dict[str, list[PartitionReturned]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    #: How many decisions were about a partition.
    counts: dict[str, int] = field(default_factory=dict)

    def take(self, entry: LogEntry) -> None:
        """The next entry takes effect."""
        match entry:
            case StepClosed():
                self._close(entry)
            case PartitionReturned(partition):
                if self.out.pop(partition, None) is not None:
                    self.returns.setdefault(partition, []).append(entry)
                    self._count(partition)
            case PartitionEnded(ends):
                for partition in ends.keys() - self.ends.keys():
                    self.ends[partition] = ends[partition]
                    self.out.pop(partition, None)
                    self._count(partition)
            case JobStopped(step) if self.stop is None:
                # Steps that are closed were done by some: all do them.
                self.stop = step if self.closed is None else max(step, self.closed)

    def _close(self, entry: StepClosed) -> None:
        is_before = self.closed is not None and entry.step <= self.closed
        is_behind_stop = self.stop is not None and entry.step > self.stop
        if is_before or is_behind_stop:
            return
        self.closed = entry.step
        # Nothing is decided about a partition behind its end: nobody waits for it.
        out = {partition: self.out.get(partition, entry.step) for partition in entry.out if partition not in self.ends}
        for partition in out.keys() ^ self.out.keys():
            self._count(partition)
        self.out = out

    def _count(self, partition: str) -> None:
        self.counts[partition] = self.counts.get(partition, 0) + 1

    def write(self, writer: Writer) -> None:
        for step in (self.closed, self.stop):
            _write_step(writer, step)
        for places in (self.out, self.ends, self.counts):
            _write_places(writer, places)
        returns = [entry for _, entries in sorted(self.returns.items()) for entry in entries]
        writer.number(len(returns))
        for entry in returns:
            _write_return(writer, entry)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        closed, stop = _read_step(reader), _read_step(reader)
        made = cls(closed, stop, _read_places(reader), ends=_read_places(reader), counts=_read_places(reader))
        for _ in range(reader.count()):
            entry = _FORMS[2][2](reader)
            made.returns.setdefault(entry.partition, []).append(entry)
        return made


# --- the log ---


@dataclass(slots=True)
class DecisionLog:
    """All entries that a node knows, and what those without a gap come to; the others wait for their predecessors.

    >>> log = DecisionLog()
    >>> log.learn(1, PartitionReturned("p", index=40, step=9)); log.next_number
    0
    >>> log.learn(0, StepClosed(7, out={"p": 40})); log.next_number, log.out, log.count("p")
    (2, {}, 2)
    >>> log.out_of(7), log.returns("p")
    (('p',), (PartitionReturned(partition='p', index=40, step=9),))
    """

    #: The number of the first entry that is kept, and what those before it came to.
    _first: int = 0
    _base: Decided = field(default_factory=Decided)
    _next: int = 0
    _now: Decided = field(default_factory=Decided)
    _entries: dict[int, LogEntry] = field(default_factory=dict)
    #: By closed step: who is left out of it.
    _outs: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def next_number(self) -> int:
        """The number of the next entry: what a node proposes, knowing all before it, it proposes under this number."""
        return self._next

    @property
    def first_number(self) -> int:
        """The number of the first entry that is still known one by one."""
        return self._first

    def learn(self, number: int, entry: LogEntry) -> None:
        """Somebody says that this is the entry with the number; DecisionError if another is known to be."""
        if not 0 <= number <= PLACE_MAX:
            raise DecisionError(
                f"decision log: an entry has the number {number}: they are numbered from 0 to {PLACE_MAX}"
            )
        if number < self._first:
            return
        known = self._entries.setdefault(number, entry)
        if known != entry:
            raise DecisionError(
                f"decision log: entry {number} is {known} here and {entry} elsewhere: the first entry with a number counts"
                " for everybody, so one of them is of another job"
            )
        while (following := self._entries.get(self._next)) is not None:
            self._take(following)
            self._next += 1

    def _take(self, entry: LogEntry) -> None:
        before = self._now.closed
        self._now.take(entry)
        if self._now.closed is not None and self._now.closed != before:
            self._outs[self._now.closed] = tuple(sorted(self._now.out))

    def entries_after(self, number: int) -> list[tuple[int, LogEntry]]:
        """The known entries with larger numbers, in their order, those that wait included: what another lacks who knows the
        entries up to this number (its next number, less one)."""
        return [(each, self._entries[each]) for each in sorted(self._entries) if each > number]

    def forget_before(self, number: int) -> None:
        """Entries before this number are no longer kept one by one, nor who was left out of the steps that they closed.

        To be called when every node has taken them, as far as one can know: who has not, needs the whole log as bytes.
        """
        while self._first < min(number, self._next):
            self._base.take(self._entries.pop(self._first))
            self._first += 1
        closed = self._base.closed
        if closed is not None:
            self._outs = {step: out for step, out in self._outs.items() if step > closed}

    # --- what is decided ---

    @property
    def closed(self) -> int | None:
        """The last step that is closed."""
        return self._now.closed

    @property
    def stop(self) -> int | None:
        """The step after which all stop."""
        return self._now.stop

    @property
    def out(self) -> Mapping[str, int]:
        """The partitions that are out, each with the first step that was closed without it."""
        return dict(self._now.out)

    def out_of(self, step: int) -> tuple[str, ...] | None:
        """Who is left out of a step; None if no entry that is kept has closed it."""
        return self._outs.get(step)

    def returns(self, partition: str) -> tuple[PartitionReturned, ...]:
        """Where a partition went on each time that it was out, in order."""
        return tuple(self._now.returns.get(partition, ()))

    def end_of(self, partition: str) -> int | None:
        """The index at which the partition is complete."""
        return self._now.ends.get(partition)

    def count(self, partition: str) -> int:
        """How many decisions are about the partition: what was computed under fewer is void, however far it went.

        A closed step is one only if the partition is out of it and was not before, or the other way round.
        """
        return self._now.counts.get(partition, 0)

    # --- bytes ---

    def to_bytes(self) -> bytes:
        """The whole log, waiting entries included; logs that know the same have equal bytes."""
        writer = Writer(VERSION).number(self._first)
        self._base.write(writer)
        writer.number(len(self._entries))
        for number, entry in self.entries_after(-1):
            writer.number(number - self._first).blob(entry_to_bytes(entry))
        return writer.finish()

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """The log of which this is the byte form; anything else is a `FormatError`."""
        with Reader(data, "a decision log", VERSION) as reader:
            first, base = reader.number(), Decided.read(reader)
            if first > PLACE_MAX:
                raise FormatError(f"a decision log begins with entry {first}: there are no more than {PLACE_MAX}")
            log = cls(first, base, first, deepcopy(base))
            try:
                for _ in range(reader.count()):
                    log.learn(first + reader.number(), entry_from_bytes(reader.view()))
            except DecisionError as error:
                raise FormatError(f"a decision log is damaged: {error}") from error
        _check_canonical(log.to_bytes(), data, "a decision log")
        return log
