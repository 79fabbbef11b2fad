"""What travels between nodes, and its byte form.

Up: `Hello` (a leaf asks for its chain) and deltas. Down: `Assign` (where to go on, with which queries), `Positions` (what was
accepted, or from where to send again), `Cuts`, `CountPlan` and `LookInto` for count windows, `Flush`, `Refuse`. Deltas and
positions are many and binary; the others are few.
"""

from __future__ import annotations

import json
import lzma
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.base.names import are_ascending
from headwater.base.packing import Bytes, Reader, Writer
from headwater.errors import HeadwaterError
from headwater.protocols.delta import Delta, delta_body, read_delta
from headwater.protocols.frames import FRAME_BYTES_MAX, FrameError, frame, open_frame
from headwater.protocols.ledger import Position

#: Long texts are mostly lists of names that are alike: xz makes a tenth of what zlib makes of them, and is slower.
SHORT, LONG = b"z", b"x"
LONG_TEXT_BYTES = 1 << 12
#: What unpacking may take.
UNPACKER_BYTES_MAX = 1 << 26
#: A body of text may not be longer than this when unpacked: a few packed bytes may stand for many, and those for many objects.
TEXT_BYTES_MAX = 1 << 24
_RATE = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class Hello:
    """A leaf is there. ``epoch``: under which it owns the chain, 0 if it does not; ``version``: of the queries it has."""

    chain: str
    node: str
    epoch: int = 0
    version: int = 0
    #: The sources in the order of their numbers, each with its home.
    sources: Sequence[tuple[str, str]] = ()
    #: The columns of its events as an Arrow schema, if it has seen any.
    schema: bytes = b""


@dataclass(frozen=True, slots=True)
class SourceState:
    """Where a source stands: the next offset that counts, and its watermark there.

    Events from ``hold`` on are read once more for windows that markers cut; ``hold_watermark`` is that of the source before
    them, and ``floors`` are (offset, time): from that offset on its watermark is at least that.
    """

    name: str
    offset: int
    watermark: int
    hold: int
    hold_watermark: int
    floors: Sequence[tuple[int, int]] = ()
    home: str = ""


@dataclass(frozen=True, slots=True)
class Assign:
    """The chain is the leaf's from this position on, under this epoch; older epochs are void.

    ``queries`` is left out when the leaf has this version. ``cut`` and ``cut_time``: the last cut, which is over.
    """

    chain: str
    node: str
    epoch: int
    position: int
    cut: int
    cut_time: int
    sources: Sequence[SourceState]
    version: int
    queries: str | None = None
    latest: int = 0
    #: By family of count windows: before which time its events are in pieces already.
    covered: Mapping[int, int] = field(default_factory=dict)
    #: The pieces that somebody looks into; the engine's affair.
    looks: bytes = b""


@dataclass(frozen=True, slots=True)
class Positions:
    """Where chains stand: accepted for good, or (``resend``) from where the sender of a delta has to send again."""

    resend: bool
    chains: Mapping[str, Position]


@dataclass(frozen=True, slots=True)
class Cuts:
    """Cut number ``number``: windows that markers cut are settled below ``until``. Leaves send what lies below, cut so.

    ``idle``: of these sources only events before the offset count. ``cuts`` is the engine's affair.
    """

    number: int
    until: int
    idle: Mapping[str, int] = field(default_factory=dict)
    cuts: bytes = b""


@dataclass(frozen=True, slots=True)
class CountPlan:
    """Plan number ``number`` for count windows, for all leaves: by family, where windows are expected to end.

    ``until``: the watermark of all; ``settled``: before this time nobody looks into pieces any more.
    """

    number: int
    until: int
    settled: int
    forecasts: Mapping[int, Sequence[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LookInto:
    """The owner of the chain is to say what lies in some of its pieces; ``looks`` is the engine's affair."""

    chain: str
    looks: bytes


@dataclass(frozen=True, slots=True)
class Rates:
    """A leaf tells all others how many events of a family it has in a tick of event time; who is between passes it on."""

    chain: str
    family: int
    rate: float


@dataclass(frozen=True, slots=True)
class Flush:
    """Take in nothing more: what is there is everything."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The root cannot take this chain, and why."""

    chain: str
    reason: str


Message = Hello | Assign | Positions | Cuts | CountPlan | LookInto | Rates | Flush | Refuse | Delta
#: The number under which each kind travels; numbers are never used again for another.
DELTA, POSITIONS, HELLO, ASSIGN, CUTS, FLUSH, REFUSE, PLAN, LOOK, RATES = range(1, 11)


def encode(message: Message) -> bytes:
    """
    >>> decode(encode(Positions(True, {"a": Position(1, 7)})))
    Positions(resend=True, chains={'a': Position(epoch=1, at=7)})
    """
    match message:
        case Delta():
            return frame(DELTA, delta_body(message))
        case Positions():
            return frame(POSITIONS, _positions_body(message))
        case Hello():
            text: list[Any] = [message.chain, message.node, message.epoch, message.version, list(message.sources)]
            return frame(HELLO, _text_body([*text, message.schema.hex()]))
        case Assign():
            sources = [
                [s.name, s.offset, s.watermark, s.hold, s.hold_watermark, list(s.floors), s.home]
                for s in message.sources
            ]
            fields = [message.chain, message.node, message.epoch, message.position, message.cut, message.cut_time]
            counting = [[list(pair) for pair in message.covered.items()], message.looks.hex()]
            fields = [*fields, sources, message.version, message.queries, message.latest, *counting]
            return frame(ASSIGN, _text_body(fields))
        case Cuts():
            head = _text_body([message.number, message.until, dict(message.idle)])
            writer = Writer()
            writer.blob(head)
            writer.blob(message.cuts)
            return frame(CUTS, writer.finish())
        case CountPlan():
            forecasts = [[family, *forecast] for family, forecast in message.forecasts.items()]
            return frame(PLAN, _text_body([message.number, message.until, message.settled, forecasts]))
        case LookInto():
            writer = Writer()
            writer.blob(message.chain.encode())
            writer.blob(message.looks)
            return frame(LOOK, writer.finish())
        case Rates():
            writer = Writer()
            writer.blob(message.chain.encode())
            writer.number(message.family)
            writer.blob(_RATE.pack(message.rate))
            return frame(RATES, writer.finish())
        case Flush():
            return frame(FLUSH, b"")
        case Refuse():
            return frame(REFUSE, _text_body([message.chain, message.reason]))


def decode(data: Bytes, bytes_max: int = FRAME_BYTES_MAX) -> Message:
    """The message in a frame; whatever is wrong with it, a `FrameError` says so."""
    kind, body = open_frame(data, bytes_max)
    try:
        return _read(kind, body)
    except FrameError:
        raise
    except (
        HeadwaterError,
        struct.error,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        LookupError,
        zlib.error,
        lzma.LZMAError,
    ) as error:
        raise FrameError(f"a frame of kind {kind} is damaged: {error}") from error


def _read(kind: int, body: memoryview) -> Message:
    match kind:
        case 1:
            return read_delta(body)
        case 2:
            return _read_positions(body)
        case 3:
            chain, node, epoch, version, sources, schema = _text(body)
            named = tuple((_str(name), _str(home)) for name, home in sources)
            return Hello(_str(chain), _str(node), _int(epoch), _int(version), named, bytes.fromhex(schema))
        case 4:
            return _read_assign(_text(body))
        case 5:
            reader = Reader(body)
            number, until, idle = _text(reader.blob())
            cuts = reader.blob()
            reader.finish()
            return Cuts(_int(number), _int(until), {_str(name): _int(offset) for name, offset in idle.items()}, cuts)
        case 6:
            Reader(body).finish()
            return Flush()
        case 7:
            chain, reason = _text(body)
            return Refuse(_str(chain), _str(reason))
        case 8:
            return _read_plan(_text(body))
        case 9:
            reader = Reader(body)
            chain, looks = reader.blob().decode(), reader.blob()
            reader.finish()
            return LookInto(chain, looks)
        case 10:
            reader = Reader(body)
            chain, family, (rate,) = reader.blob().decode(), reader.number(), _RATE.unpack(reader.blob())
            reader.finish()
            return Rates(chain, _int(family), _float(rate))
    raise FrameError(f"no message has the kind {kind}")


def _read_assign(fields: Any) -> Assign:
    chain, node, epoch, position, cut, cut_time, sources, version, queries, latest, *counting = fields
    # Those of releases that knew no pieces lie in checkpoints.
    covered, looks = counting or ((), "")
    states = []
    for name, offset, watermark, hold, hold_watermark, floors, home in sources:
        known = tuple((_int(at), _int(time)) for at, time in floors)
        numbers = (_int(offset), _int(watermark), _int(hold), _int(hold_watermark))
        states.append(SourceState(_str(name), *numbers, known, _str(home)))
    text = None if queries is None else _str(queries)
    places = (_int(epoch), _int(position), _int(cut), _int(cut_time))
    pieces = {_int(family): _int(time) for family, time in covered}
    return Assign(
        _str(chain), _str(node), *places, tuple(states), _int(version), text, _int(latest), pieces, bytes.fromhex(looks)
    )


def _read_plan(fields: Any) -> CountPlan:
    number, until, settled, forecasts = fields
    known = {_int(family): _read_forecast(forecast) for family, *forecast in forecasts}
    return CountPlan(_int(number), _int(until), _int(settled), known)


def _read_forecast(fields: Any) -> list[Any]:
    position, time, per_event, spread, piece_max, horizon, is_raw, shares, peers, patience, raw_max = fields
    if _int(piece_max) < 1 or not isinstance(is_raw, bool):
        raise FrameError("a forecast makes no sense")
    rates = [_float(per_event), None if spread is None else _float(spread)]
    known = {_str(chain): [_int(number) for number in share] for chain, share in shares.items()}
    if any(len(share) != 3 or min(share[1:]) < 0 for share in known.values()):
        raise FrameError("a share of a window makes no sense")
    ends = None if horizon is None else _int(horizon)
    limits = [_int(peers), _int(patience), _int(raw_max)]
    return [_int(position), _int(time), *rates, piece_max, ends, is_raw, known, *limits]


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**62:
        raise FrameError("a number from 0 on is expected")
    return float(value)


def _positions_body(message: Positions) -> bytes:
    writer = Writer()
    writer.number(message.resend)
    chains = sorted(message.chains)
    writer.texts(chains)
    positions = [message.chains[chain] for chain in chains]
    writer.ints(np.array([*(p.epoch for p in positions), *(p.at for p in positions)], np.int64))
    return writer.finish()


def _read_positions(body: memoryview) -> Positions:
    reader = Reader(body)
    resend = reader.number()
    if resend > 1:
        raise FrameError(f"positions are accepted (0) or to be sent from again (1), not {resend}")
    chains, numbers = reader.texts(), reader.ints()
    reader.finish()
    if len(numbers) != 2 * len(chains) or not are_ascending(chains):
        raise FrameError("chains are named twice or out of order, or have no positions")
    if len(numbers) and int(numbers.min()) < 0:
        raise FrameError("a position is not negative")
    return Positions(bool(resend), dict(zip(chains, map(Position._make, zip(*numbers.reshape(2, -1).tolist())))))


def _text_body(tree: Any) -> bytes:
    text = json.dumps(tree).encode()
    if len(text) > TEXT_BYTES_MAX:
        raise FrameError(f"a message of {len(text)} bytes is longer than the {TEXT_BYTES_MAX} that are allowed")
    if len(text) < LONG_TEXT_BYTES:
        return SHORT + zlib.compress(text, 6)
    # Lists of queries get no smaller by a higher preset, which takes five times as long.
    return LONG + lzma.compress(text, lzma.FORMAT_XZ, lzma.CHECK_NONE, preset=3)


def _text(body: bytes | memoryview) -> Any:
    if bytes(body[:1]) not in (SHORT, LONG):
        raise FrameError("a message is written in a way that this release does not know")
    text = (_unpacked_short if bytes(body[:1]) == SHORT else _unpacked_long)(bytes(body[1:]))
    try:
        return json.loads(text)
    except RecursionError as error:
        raise FrameError("a message is nested too deeply") from error


def _unpacked_short(data: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data, TEXT_BYTES_MAX)
    return _whole(text, unpacker.eof, unpacker.unused_data)


def _unpacked_long(data: bytes) -> bytes:
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=UNPACKER_BYTES_MAX)
    text = unpacker.decompress(data, TEXT_BYTES_MAX)
    return _whole(text, unpacker.eof, unpacker.unused_data)


def _whole(text: bytes, is_at_end: bool, rest: bytes) -> bytes:
    if not is_at_end:
        raise FrameError("a message is longer than allowed, or its end is missing")
    if rest:
        raise FrameError("bytes follow the end of a message")
    return text


def _int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise FrameError(f"a number is expected, not a {type(value).__name__}")
    if not -(2**63) <= value < 2**63:
        raise FrameError("a number does not fit into 64 bits")
    return value


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise FrameError(f"a text is expected, not a {type(value).__name__}")
    # Half a surrogate pair passes as JSON; whoever has to name it in a frame of bytes would fail.
    value.encode()
    return value
