"""What nodes without a root tell each other, in the frames of all nodes. Nothing is acknowledged or sent again by itself: a
digest says where its sender stands, and whoever has more tells what is missing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from headwater.base.names import are_ascending
from headwater.base.packing import Bytes, Reader, Writer, one_peers_room
from headwater.errors import HeadwaterError
from headwater.protocols.delta import CHAINS_MAX
from headwater.protocols.frames import FRAME_BYTES_MAX, FrameError, frame, open_frame
from headwater.protocols.peers.decisions import LogEntry, entry_from_bytes, entry_to_bytes
from headwater.protocols.peers.ownership import PartitionOwner
from headwater.protocols.windowed_crdt import (
    Prefix,
    PrefixDelta,
    delta_from_bytes,
    delta_to_bytes,
    prefix_from_bytes,
    prefix_to_bytes,
)

VERSION = 1
#: No program has more levels, and no world more pieces.
LEVELS_MAX, PIECES_MAX = 64, 1024
#: What a piece of a world may take.
PIECE_BYTES = 1 << 20
#: Nobody has counted further.
COUNT_MAX = 1 << 62
#: What reading damaged bytes can end in.
_DAMAGES = (HeadwaterError, ValueError, TypeError, ArithmeticError, LookupError, struct.error)


@dataclass(frozen=True, slots=True)
class Digest:
    """Where a node stands; also its heartbeat. ``incarnation``: which of its lives; ``beat`` rises within one.

    ``executed``: by level the last step; ``chains``: how many decisions its prefix of each was made under, and its index;
    ``lags``: of the partitions that it runs, in nanoseconds; ``durable``: up to which row each chain of output is safe;
    ``decisions``: how many entries of the decision log it knows.
    """

    name: str
    incarnation: int
    beat: int
    generation: int
    executed: tuple[int, ...] = ()
    chains: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    owners: Mapping[str, PartitionOwner] = field(default_factory=dict)
    lags: Mapping[str, int] = field(default_factory=dict)
    durable: Mapping[str, int] = field(default_factory=dict)
    decisions: int = 0


@dataclass(frozen=True, slots=True)
class PrefixTold:
    """What is known of a chain, to one whom no delta helps."""

    chain: str
    prefix: Prefix


@dataclass(frozen=True, slots=True)
class WorldPiece:
    """A piece of a world, to one for whom the parts of steps are gone. ``world`` names it: how many steps were executed in it."""

    generation: int
    world: int
    number: int
    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class EntryTold:
    """An entry of the decision log: it has this number for everybody."""

    generation: int
    number: int
    entry: LogEntry


PeerMessage = Digest | PrefixDelta | PrefixTold | WorldPiece | EntryTold
#: The number under which each kind travels, behind those of `protocols/messages.py`; never used again for another.
DIGEST, PREFIX_DELTA, PREFIX, WORLD, ENTRY = range(12, 17)


def told(message: PeerMessage) -> bytes:
    """The frame of a message.

    >>> heard(told(Digest("a", 1, 7, 1, (3,), {"p": (0, 12)})))
    Digest(name='a', incarnation=1, beat=7, generation=1, executed=(3,), chains={'p': (0, 12)}, owners={}, lags={}, durable={}, \
decisions=0)
    """
    kind = _KINDS[type(message)]
    return frame(kind, _FORMS[kind][1](message))


def heard(data: Bytes, bytes_max: int = FRAME_BYTES_MAX) -> PeerMessage:
    """The message in a frame; a `FrameError` says what is wrong with one that cannot be read."""
    kind, body = open_frame(data, bytes_max)
    if kind not in _FORMS:
        raise FrameError(f"no message of nodes without a root has the kind {kind}")
    try:
        with one_peers_room():
            message: PeerMessage = _FORMS[kind][2](body)
        return message
    except FrameError:
        raise
    except _DAMAGES as error:
        raise FrameError(f"a frame of kind {kind} is damaged: {error}") from error


# --- bodies ---


def _digest_body(digest: Digest) -> bytes:
    writer = Writer(VERSION).blob(digest.name.encode())
    for number in (digest.incarnation, digest.beat, digest.generation, digest.decisions):
        writer.number(number)
    writer.ints(np.array(digest.executed, np.int64))
    _put_columns(writer, {chain: tuple(at) for chain, at in digest.chains.items()}, 2)
    _put_columns(writer, {unit: (owner.version,) for unit, owner in digest.owners.items()}, 1)
    writer.texts([owner.node for _, owner in sorted(digest.owners.items())])
    _put_columns(writer, {name: (lag,) for name, lag in digest.lags.items()}, 1)
    _put_columns(writer, {name: (index,) for name, index in digest.durable.items()}, 1)
    return writer.finish()


def _read_digest(body: memoryview) -> Digest:
    with Reader(body, "a digest", VERSION) as reader:
        name = reader.blob().decode()
        incarnation, beat, generation, decisions = (reader.number() for _ in range(4))
        executed = tuple(reader.ints().tolist())
        chains = _take_columns(reader, 2)
        versions = _take_columns(reader, 1)
        nodes = reader.texts(CHAINS_MAX)
        lags, durable = _take_columns(reader, 1), _take_columns(reader, 1)
    if max(incarnation, beat, generation, decisions) > COUNT_MAX or len(executed) > LEVELS_MAX:
        raise FrameError("a digest counts further than anybody can")
    if len(nodes) != len(versions):
        raise FrameError("a digest names owners of nothing")
    owners = {unit: PartitionOwner(one[0], node) for (unit, one), node in zip(versions.items(), nodes)}
    places = {chain: (one[0], one[1]) for chain, one in chains.items()}
    first = {name: one[0] for name, one in lags.items()}, {name: one[0] for name, one in durable.items()}
    return Digest(name, incarnation, beat, generation, executed, places, owners, *first, decisions)


def _put_columns(writer: Writer, rows: Mapping[str, tuple[int, ...]], width: int) -> None:
    """Names in order, and so many numbers for each."""
    names = sorted(rows)
    writer.texts(names)
    for place in range(width):
        writer.ints(np.array([rows[name][place] for name in names], np.int64))


def _take_columns(reader: Reader, width: int) -> dict[str, tuple[int, ...]]:
    names = reader.texts(CHAINS_MAX)
    columns = [reader.ints().tolist() for _ in range(width)]
    if not are_ascending(names) or any(len(column) != len(names) for column in columns):
        raise FrameError("a digest names something twice, out of order or without its numbers")
    if any(not 0 <= number <= COUNT_MAX for column in columns for number in column):
        raise FrameError("a digest counts below nothing or further than anybody can")
    return dict(zip(names, zip(*columns)))


def _read_prefix(body: memoryview) -> PrefixTold:
    with Reader(body, "what is told of a chain", VERSION) as reader:
        return PrefixTold(reader.blob().decode(), prefix_from_bytes(reader.view()))


def _read_piece(body: memoryview) -> WorldPiece:
    with Reader(body, "a piece of a world", VERSION) as reader:
        piece = WorldPiece(reader.number(), reader.number(), reader.number(), reader.number(), reader.blob())
    if not piece.number < piece.count <= PIECES_MAX or len(piece.data) > PIECE_BYTES or piece.world > COUNT_MAX:
        raise FrameError("a piece belongs to no world that can be")
    return piece


def _read_entry(body: memoryview) -> EntryTold:
    with Reader(body, "what is told of the decision log", VERSION) as reader:
        found = EntryTold(reader.number(), reader.number(), entry_from_bytes(reader.view()))
    if found.number > COUNT_MAX:
        raise FrameError("no decision log is so long")
    return found


_FORMS: Final[dict[int, tuple[type, Callable[[Any], bytes], Callable[[memoryview], Any]]]] = {
    DIGEST: (Digest, _digest_body, _read_digest),
    PREFIX_DELTA: (PrefixDelta, delta_to_bytes, delta_from_bytes),
    PREFIX: (
        PrefixTold,
        lambda one: Writer(VERSION).blob(one.chain.encode()).blob(prefix_to_bytes(one.prefix)).finish(),
        _read_prefix,
    ),
    WORLD: (
        WorldPiece,
        lambda one: (
            Writer(VERSION).number(one.generation).number(one.world).number(one.number).number(one.count).blob(one.data)
        ).finish(),
        _read_piece,
    ),
    ENTRY: (
        EntryTold,
        lambda one: Writer(VERSION).number(one.generation).number(one.number).blob(entry_to_bytes(one.entry)).finish(),
        _read_entry,
    ),
}
_KINDS: Final = {made: kind for kind, (made, _, _) in _FORMS.items()}
