"""What travels between nodes, and its byte form.

Up: `Hello` (a leaf asks for its chain), deltas and `Leave`. Down: `Assign` (where to go on, with which queries), `Positions`
(what was accepted, or from where to send again), `Cuts`, `CountPlan` and `LookInto` for count windows, `Flush`, `Refuse`. Deltas
and positions are many and binary; the others are few.
"""

from __future__ import annotations

import json
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, get_type_hints

import numpy as np

from headwater.base.names import are_ascending
from headwater.base.packing import Bytes, Reader, Writer, one_peers_room
from headwater.errors import HeadwaterError
from headwater.protocols.count_windows import Forecast
from headwater.protocols.delta import CHAINS_MAX, Delta, delta_body, read_delta
from headwater.protocols.frames import FRAME_BYTES_MAX, FrameError, frame, open_frame
from headwater.protocols.json_forms import JsonForm, form_of, read_int, read_rate, record_of
from headwater.protocols.ledger import Position

#: Long texts are mostly lists of names that are alike: xz makes a tenth of what zlib makes of them, and is slower.
SHORT, LONG = b"z", b"x"
LONG_TEXT_BYTES = 1 << 12
#: What unpacking may take.
UNPACKER_BYTES_MAX = 1 << 26
#: A body of text may not be longer than this when unpacked: a few packed bytes may stand for many, and those for many objects.
TEXT_BYTES_MAX = 1 << 24
#: Nobody has counted further: deltas, cuts, epochs. What is added to it still fits into 64 bits.
COUNT_MAX = 1 << 62
_DOUBLE = struct.Struct("<d")
#: What reading damaged bytes can end in.
_UNPACKING = (zlib.error, lzma.LZMAError, struct.error)
_DAMAGES = (
    HeadwaterError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    LookupError,
    RecursionError,
    *_UNPACKING,
)


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
    #: The pieces that the root asks about, in the engine's form.
    looks: bytes = b""


@dataclass(frozen=True, slots=True)
class Positions:
    """Where chains stand: accepted for good, or (``resend``) from where the sender of a delta has to send again."""

    resend: bool
    chains: Mapping[str, Position]


@dataclass(frozen=True, slots=True)
class Cuts:
    """Cut number ``number``: windows that markers cut are settled below ``until``. Leaves send what lies below, cut so.

    ``idle``: of these sources only events before the offset count. ``cuts`` is in the engine's form.
    """

    number: int
    until: int
    idle: Mapping[str, int] = field(default_factory=dict)
    cuts: bytes = b""


@dataclass(frozen=True, slots=True)
class CountPlan:
    """Plan number ``number`` for count windows, for all leaves: by family, where windows are expected to end.

    ``until``: the watermark of all; ``settled``: the root asks about no piece before this time any more.
    """

    number: int
    until: int
    settled: int
    forecasts: Mapping[int, Forecast] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LookInto:
    """The owner of the chain is to say what lies in some of its pieces; ``looks`` is in the engine's form."""

    chain: str
    looks: bytes


@dataclass(frozen=True, slots=True)
class Rates:
    """A leaf tells all others how many events of a family it has in a tick of event time; relays and the root pass it on."""

    chain: str
    family: int
    rate: float


@dataclass(frozen=True, slots=True)
class Flush:
    """Take in nothing more: what is there is everything."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The owner of the chain under this epoch gives it up: whoever asks for it next gets it."""

    chain: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """The root cannot take this chain, and why."""

    chain: str
    reason: str


Message = Hello | Assign | Positions | Cuts | CountPlan | LookInto | Rates | Flush | Refuse | Leave | Delta
#: The number under which each kind travels; numbers are never used again for another.
DELTA, POSITIONS, HELLO, ASSIGN, CUTS, FLUSH, REFUSE, PLAN, LOOK, RATES, LEAVE = range(1, 12)


def encode(message: Message) -> bytes:
    """
    >>> decode(encode(Positions(True, {"a": Position(1, 7)})))
    Positions(resend=True, chains={'a': Position(epoch=1, at=7)})
    """
    kind = _KINDS[type(message)]
    return frame(kind, _FORMS[kind].write(message))


def decode(data: Bytes, bytes_max: int = FRAME_BYTES_MAX) -> Message:
    """The message in a frame; a `FrameError` says what is wrong with one that cannot be read."""
    kind, body = open_frame(data, bytes_max)
    if kind not in _FORMS:
        raise FrameError(f"no message has the kind {kind}")
    try:
        with one_peers_room():
            message: Message = _FORMS[kind].read(body)
        return message
    except FrameError:
        raise
    except _DAMAGES as error:
        raise FrameError(f"a frame of kind {kind} is damaged: {error}") from error


# --- bodies of bytes ---


def _positions_body(message: Positions) -> bytes:
    chains = sorted(message.chains)
    positions = [message.chains[chain] for chain in chains]
    numbers = np.array([*(p.epoch for p in positions), *(p.at for p in positions)], np.int64)
    return Writer().number(message.resend).texts(chains).ints(numbers).finish()


def _read_positions(body: memoryview) -> Positions:
    reader = Reader(body)
    resend = reader.number()
    if resend > 1:
        raise FrameError(f"positions are accepted (0) or to be sent from again (1), not {resend}")
    chains, numbers = reader.texts(CHAINS_MAX), reader.ints()
    reader.finish()
    if len(numbers) != 2 * len(chains) or not are_ascending(chains):
        raise FrameError("chains are named twice or out of order, or have no positions")
    if len(numbers) and int(numbers.min()) < 0:
        raise FrameError("a position is not negative")
    return Positions(bool(resend), dict(zip(chains, map(Position._make, zip(*numbers.reshape(2, -1).tolist())))))


_CUTS_HEAD = form_of(tuple[int, int, Mapping[str, int]])


def _cuts_body(message: Cuts) -> bytes:
    head = _text_body(_CUTS_HEAD.write((message.number, message.until, message.idle)))
    return Writer().blob(head).blob(message.cuts).finish()


def _read_cuts(body: memoryview) -> Cuts:
    with Reader(body, "cuts") as reader:
        number, until, idle = _CUTS_HEAD.read(_text(reader.blob()))
        return Cuts(number, until, idle, reader.blob())


# --- bodies of text ---


def _text_body(tree: Any) -> bytes:
    text = json.dumps(tree).encode()
    if len(text) > TEXT_BYTES_MAX:
        raise FrameError(f"a message of {len(text)} bytes is longer than the {TEXT_BYTES_MAX} that are allowed")
    if len(text) < LONG_TEXT_BYTES:
        return SHORT + zlib.compress(text, 6)
    # Lists of queries get no smaller by a higher preset, which takes five times as long.
    return LONG + lzma.compress(text, lzma.FORMAT_XZ, lzma.CHECK_NONE, preset=3)


def _text(body: bytes | memoryview) -> Any:
    way, data = bytes(body[:1]), bytes(body[1:])
    if way not in (SHORT, LONG):
        raise FrameError("a message is written in a way that this release does not know")
    unpacker: Any = zlib.decompressobj()
    if way == LONG:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=UNPACKER_BYTES_MAX)
    text = unpacker.decompress(data, TEXT_BYTES_MAX)
    if not unpacker.eof:
        raise FrameError("a message is longer than allowed, or its end is missing")
    if unpacker.unused_data:
        raise FrameError("bytes follow the end of a message")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise FrameError("a message is nested too deeply") from error


_FORECAST = form_of(Forecast)
_FORECAST_ROWS = form_of(Sequence[tuple[(int, *get_type_hints(Forecast).values())]])  # type: ignore[misc]


def _read_forecasts(rows: Any) -> dict[int, Forecast]:
    found = {}
    for family, *values in _FORECAST_ROWS.read(rows):
        forecast = found[family] = Forecast(*values)
        if forecast.piece_max < 1 or any(min(share[1:]) < 0 for share in forecast.shares.values()):
            raise FrameError("a forecast makes no sense")
    return found


#: The number of a family, then the fields of its forecast.
_FORECASTS = JsonForm(
    _read_forecasts, lambda forecasts: [[family, *_FORECAST.write(one)] for family, one in forecasts.items()]
)


_ASSIGN_ROW = record_of(Assign, required=10)


def _read_assign(row: Any) -> Assign:
    assign: Assign = _ASSIGN_ROW.read(row)
    names = {source.name for source in assign.sources}
    are_places = all(0 <= source.hold <= source.offset for source in assign.sources)
    counts = assign.epoch - 1, assign.position, assign.cut, assign.version
    if not are_places or len(names) < len(assign.sources) or min(counts) < 0 or max(counts) > COUNT_MAX:
        raise FrameError("an assignment begins where nothing can begin")
    return assign


_ASSIGN = JsonForm(_read_assign, _ASSIGN_ROW.write)


@dataclass(frozen=True, slots=True)
class BodyForm:
    """How messages of one class are written as the body of a frame, and read."""

    made: type
    write: Callable[[Any], bytes]
    read: Callable[[memoryview], Any]


def _in_text(made: type, form: JsonForm | None = None) -> BodyForm:
    known = form or form_of(made)
    return BodyForm(made, lambda message: _text_body(known.write(message)), lambda body: known.read(_text(body)))


def _in_bytes(made: type, *forms: tuple[Callable[[Writer, Any], object], Callable[[Reader], Any]]) -> BodyForm:
    """A body of the fields one after the other, each with its functions to write and read it."""

    def write(message: Any) -> bytes:
        writer = Writer()
        for field_, (put, _) in zip(fields(made), forms):
            put(writer, getattr(message, field_.name))
        return writer.finish()

    def read(body: memoryview) -> Any:
        with Reader(body, "a message") as reader:
            return made(*[take(reader) for _, take in forms])

    return BodyForm(made, write, read)


_NAME: Final = (lambda writer, name: writer.blob(name.encode()), lambda reader: reader.blob().decode())
_NUMBER: Final = (Writer.number, lambda reader: read_int(reader.number()))
_RATE: Final = (
    lambda writer, rate: writer.blob(_DOUBLE.pack(rate)),
    lambda reader: read_rate(_DOUBLE.unpack(reader.blob())[0]),
)
_FORMS: Final = {
    DELTA: BodyForm(Delta, delta_body, read_delta),
    POSITIONS: BodyForm(Positions, _positions_body, _read_positions),
    HELLO: _in_text(Hello),
    # Those of releases that knew no pieces lie in checkpoints: they lack the last two fields.
    ASSIGN: _in_text(Assign, _ASSIGN),
    CUTS: BodyForm(Cuts, _cuts_body, _read_cuts),
    FLUSH: _in_bytes(Flush),
    REFUSE: _in_text(Refuse),
    PLAN: _in_text(CountPlan, record_of(CountPlan, forecasts=_FORECASTS)),
    LOOK: _in_bytes(LookInto, _NAME, (Writer.blob, Reader.blob)),
    RATES: _in_bytes(Rates, _NAME, _NUMBER, _RATE),
    LEAVE: _in_bytes(Leave, _NAME, _NUMBER),
}
_KINDS: Final = {form.made: kind for kind, form in _FORMS.items()}
