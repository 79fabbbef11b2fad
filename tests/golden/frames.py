"""Messages between nodes, one of each kind, and deltas with parts of every kind."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from golden import own
from golden.material import QUERIES, SCHEMA, events
from headwater.engine.intake.chunk import Chunk
from headwater.engine.intake.columns import read_values
from headwater.engine.operators.operator import Best, Op
from headwater.engine.operators.partials import PartialColumn, lift
from headwater.engine.wire.looks import Look, looks_to_bytes
from headwater.engine.wire.part_bytes import cuts_to_bytes, part_to_bytes
from headwater.engine.wire.parts import (
    ALL_RAW,
    AccountsPart,
    AsidePart,
    EventsPart,
    KeyedTimes,
    LatePart,
    MarkersPart,
    Part,
    PiecesPart,
    RawRuns,
    RowsPart,
)
from headwater.language.files.queries import to_json
from headwater.protocols.advances import Advance
from headwater.protocols.count_windows import Forecast
from headwater.protocols.delta import CUT_SUFFIX, ChainRange, Delta
from headwater.protocols.ledger import Position
from headwater.protocols.messages import (
    Assign,
    CountPlan,
    Cuts,
    Flush,
    Hello,
    Leave,
    LookInto,
    Message,
    Positions,
    Rates,
    Refuse,
    SourceState,
)

COUNT, ROWS = 40, 4
EVENTS = events(0, COUNT)
TIMES = EVENTS.column("time").to_numpy().copy()
OFFSETS = np.arange(COUNT)
ROW_OF_EVENT = (np.arange(COUNT) % ROWS).astype(np.int32)
KEYS = [pa.array(["u", "v", None]), pa.array([1, 2, 2], pa.int64())]
KEY_OF_ROW = np.array([0, 1, 2, 0])

#: Operators by what they hold: numbers, values in order, sketches, users' own, events.
OPERATORS: dict[str, list[Op]] = {
    "numbers": [Op("count"), *(Op(kind, name) for name in "ix" for kind in "valid sum sumsq product min max".split())],
    "objects": [Op(kind, "d") for kind in ("sum", "sumsq", "min", "max")] + [Op("min", "s"), Op("max", "s")],
    "runs": [Op("run", name) for name in "ixds"],
    "ordered": [Op(kind, name) for name in "ixds" for kind in ("ordered", "first", "last")],
    "sketches": [Op("hll", "s", 6), Op("hll", "i", 6), Op("ddsketch", "x", 0.05)],
    "own": [Op("user", "i", own.SQUARED), Op("user", "s", own.LENGTHS), Op("user", "s", own.NUMBER)],
    "tops": [Op("top", "x", Best(2, True, True, ("s", "d"))), Op("top", "s", Best(1, False, False, ("i",)))],
}


def partials(kind: str, rows: np.ndarray = ROW_OF_EVENT, count: int = ROWS) -> dict[Op, PartialColumn]:
    columns = {name: read_values(EVENTS.column(name)) for name in ("i", "x", "d", "s")}
    sources = (np.arange(COUNT) % 2).astype(np.int32)
    return lift(OPERATORS[kind], Chunk(TIMES, OFFSETS, sources, ["north", "é"], columns), rows, count)


def places(count: int, begin: int = 0) -> np.ndarray:
    """Events as they stand in the order: times, sources by number, offsets."""
    numbers = np.arange(begin, begin + count)
    return np.stack((numbers // 2, numbers % 2, numbers))


def pieces(kind: str, is_raw: bool, answers: int) -> PiecesPart:
    sizes, runs = np.array([10, 10]), None
    if is_raw:
        values = {name: EVENTS.column(name).slice(0, 5) for name in ("i", "s")} | {
            "x": pa.array([0.5, -0.0, 3, 1e300, 2])
        }
        runs = RawRuns(np.array([2, 3]), places(5, 20), np.array([0, 1, 2, 1, 0]), values)
    piece, key = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])
    ends = np.stack((places(2), places(2) + np.array([[4], [0], [9]])))
    fixed = (3, "north", 20, 25, is_raw, answers)
    return PiecesPart.of(*fixed, sizes, *ends, piece, KEYS, key, partials(kind), runs)


def parts() -> dict[str, list[Part]]:
    """Parts of every kind, by the name of the delta that holds them."""
    slices, first = np.array([0, 10, 20, 30]), np.array([1, 12, 20, 39])
    columns = {name: EVENTS.column(name) for name in ("k", "x", "d")}
    sources = np.arange(COUNT) % 2
    key = np.arange(COUNT) % 3
    told = pa.table(
        {
            "query": ["tumbling", None],
            "reason": ["too late", "its time is null"],
            "source": ["north", "é"],
            "offset": [7, 8],
            "time": [3, None],
            "watermark": [5, None],
            "event": ['{"time":3}', '{"time":null}'],
        }
    )
    rows: dict[str, list[Part]] = {
        f"rows-{kind}": [RowsPart(number, KEYS, KEY_OF_ROW, slices, partials(kind))]
        for number, kind in enumerate(OPERATORS)
    }
    zeros = np.zeros(ROWS, np.int64)
    return rows | {
        "sessions": [RowsPart(7, KEYS, KEY_OF_ROW, slices, partials("numbers"), 3, first, first + 5)],
        "no-keys": [RowsPart(8, [], zeros, slices, partials("numbers"))],
        "cut": [RowsPart(9, KEYS, KEY_OF_ROW, slices, partials("runs"), cut=True)],
        "events": [
            EventsPart(ALL_RAW, "north", TIMES, OFFSETS, np.zeros(COUNT, np.int64), TIMES, columns, {"x": [3, 5]}),
            EventsPart(2, "north", TIMES, OFFSETS, sources, TIMES + 1, columns),
        ],
        "late": [LatePart(4, "north", KEYS, key, TIMES, OFFSETS, sources, TIMES + sources, columns)],
        "markers": [MarkersPart(5, "north", KEYS, key, TIMES, OFFSETS, sources, [TIMES > 9, sources == 1])],
        "pieces": [pieces("numbers", is_raw=False, answers=-1), pieces("runs", is_raw=True, answers=12)],
        "accounts": [AccountsPart(np.array([[0, 40, 3, 2, 1], [1, 40, 0, 0, 0]]), 2, 1), AsidePart(told)],
    }


def deltas() -> dict[str, Message]:
    """A delta for each kind of part, and one as relays make them."""
    advance = Advance.of([0, 1], [21, 19], [-(2**63), 38], 40)
    found: dict[str, Message] = {}
    for name, some in parts().items():
        if name == "cut":
            ranges, moved = {f"north{CUT_SUFFIX}": ChainRange(2, 4, 5)}, {}
        else:
            ranges, moved = {"north": ChainRange(2, 5, 6)}, {"north": advance}
        found[f"delta-{name}"] = Delta(ranges, moved, [part_to_bytes(part) for part in some])
    many = {f"leaf-{number:02d}": ChainRange(1 + number % 2, number, number + 3) for number in range(40)}
    moved = {chain: Advance.of([0, 3], [5, 7 * place], [place, 1000], 9) for place, chain in enumerate(many)}
    del moved["leaf-07"]
    return found | {"delta-many": Delta(many, moved, [])}


def messages() -> dict[str, Message]:
    """One message of each kind, and two where there are two forms."""
    keys = np.array([5, 0, 7]), np.array([9, 1, 3])
    looks = looks_to_bytes({3: [Look(11, 4, *keys, 6, 8, [pa.array(["é"])]), Look(12, 2, *keys, 5, 5)]})
    cuts = cuts_to_bytes({5: KeyedTimes(KEYS, np.array([0, 1, 2, 2]), np.array([5, 5, 14, 23]))})
    sources = (
        SourceState("north", 40, 37, 12, 9, ((14, 11), (30, 25)), "home"),
        SourceState("é", 0, -(2**63), 0, -(2**63)),
    )
    forecast = Forecast(100, 57, 0.25, 1.5, 32, 90, False, {"north": (3, 40, 2)}, 2, 5, 128)
    return {
        "hello": Hello("north", "leaf-1", 2, 3, (("north", "home"), ("é", "")), SCHEMA.serialize().to_pybytes()),
        "assign": Assign("north", "leaf-1", 2, 5, 4, 23, sources, 3, to_json(QUERIES), 41, {3: 20, 6: -1}, looks),
        "assign-same-queries": Assign("é", "leaf-2", 1, 0, 0, -(2**63), (), 3),
        "positions": Positions(False, {"north": Position(2, 6), f"north{CUT_SUFFIX}": Position(2, 5)}),
        "positions-resend": Positions(True, {f"leaf-{number}": Position(1, number) for number in range(5)}),
        "cuts": Cuts(5, 23, {"é": 17}, cuts),
        "plan": CountPlan(6, 57, 40, {3: forecast, 6: Forecast(0, 0, 0.0, None, 1, is_raw=True, raw_max=4096)}),
        "look": LookInto("north", looks),
        "rates": Rates("north", 3, 0.1),
        "flush": Flush(),
        "leave": Leave("é", 7),
        "refuse": Refuse("é", "query 'tumbling': there is no column 'x'"),
        **deltas(),
    }
