"""Frames that no honest node sends: recorded ones changed in one place or many, and made-up ones.

Whatever is changed within a body gets its checksum anew, so that it reaches what reads bodies and not only what reads frames.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrow import schema_to_bytes, table_to_bytes
from headwater.base.packing import Writer
from headwater.protocols import messages
from headwater.protocols.advances import Advance
from headwater.protocols.delta import ChainRange, Delta
from headwater.protocols.frames import HEADER, frame
from headwater.protocols.ledger import Ledger, Position
from headwater.protocols.messages import _text, _text_body, decode, encode

#: A module that must never be imported: frames name it wherever code can be named.
CANARY = "headwater_canary"
NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, 2**16, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30)
BYTES = (0, 1, 2, 0x10, 0x40, 0x7F, 0x80, 0x81, 0xFF)
NAMES = ("A", "B", "C", "a", "b", "c", "A#cuts", "nobody", "", "mallory", "\0", "é" * 40)
KINDS = range(14)


class Forge:
    """Makes frames out of recorded ones. ``ledger``: the root's, so that some of them come at the right place."""

    def __init__(self, recorded: Sequence[bytes], dice: Random) -> None:
        self.recorded, self.dice = list(recorded), dice
        self.by_kind: dict[int, list[bytes]] = {}
        for one in self.recorded:
            self.by_kind.setdefault(one[3], []).append(one)
        self.parts = [bytes(part) for one in self.recorded if one[3] == messages.DELTA for part in decode(one).parts]

    def next(self, ledger: Ledger) -> bytes:
        dice = self.dice
        way = dice.choices(WAYS, WEIGHTS)[0]
        one = dice.choice(self.by_kind[dice.choice(list(self.by_kind))])
        return way(self, one, ledger)

    # --- bytes ---

    def plain(self, one: bytes, _: Ledger) -> bytes:
        """As it was recorded, which is late, early or somebody else's by now."""
        return one

    def damaged(self, one: bytes, _: Ledger) -> bytes:
        return self.changed(one)

    def reframed(self, one: bytes, _: Ledger) -> bytes:
        return frame(one[3], self.changed(one[HEADER.size :]))

    def renamed(self, one: bytes, _: Ledger) -> bytes:
        return frame(self.dice.choice(KINDS), one[HEADER.size :])

    def made_up(self, _one: bytes, _: Ledger) -> bytes:
        return frame(self.dice.choice(KINDS), self.dice.randbytes(self.dice.choice([0, 1, 5, 40, 300])))

    def changed(self, data: bytes) -> bytes:
        dice, data = self.dice, bytearray(data)
        for _ in range(dice.choice([1, 1, 1, 2, 4, 16])):
            at = dice.randrange(len(data) + 1)
            length = dice.choice([1, 1, 2, 4, 8, 64])
            match dice.randrange(6):
                case 0 if data:
                    data[at % len(data)] ^= 1 << dice.randrange(8)
                case 1 if data:
                    data[at % len(data)] = dice.choice(BYTES)
                case 2:
                    del data[at : at + length]
                case 3:
                    data[at:at] = dice.randbytes(length)
                case 4:
                    data[at:at] = data[at : at + length]
                case 5:
                    other = dice.choice(self.recorded)
                    begin = dice.randrange(len(other))
                    data[at : at + length] = other[begin : begin + length]
        return bytes(data) if dice.random() < 0.95 else bytes(data[: dice.randrange(len(data) + 1)])

    # --- texts ---

    def rewritten(self, one: bytes, _: Ledger) -> bytes:
        """A message of text, with something else somewhere in its tree."""
        if one[3] not in (messages.HELLO, messages.ASSIGN, messages.REFUSE, messages.PLAN):
            return self.reframed(one, _)
        tree = self.other_tree(_text(one[HEADER.size :]))
        return frame(one[3], _text_body(tree))

    def other_tree(self, tree: Any) -> Any:
        dice = self.dice
        if isinstance(tree, list) and tree and dice.random() < 0.9:
            at = dice.randrange(len(tree))
            match dice.randrange(8):
                case 0:
                    return tree[:at] + tree[at + 1 :]
                case 1:
                    return [*tree, tree[at]]
            return [*tree[:at], self.other_tree(tree[at]), *tree[at + 1 :]]
        if isinstance(tree, dict) and tree and dice.random() < 0.9:
            name = dice.choice(list(tree))
            return {**tree, name: self.other_tree(tree[name])}
        if isinstance(tree, str) and tree[:1] in ("{", "[") and dice.random() < 0.9:
            return json.dumps(self.other_tree(json.loads(tree)))  # queries are text in text
        if isinstance(tree, int) and dice.random() < 0.8:
            return dice.choice([tree + 1, tree - 1, *NUMBERS])
        return dice.choice([None, True, 1.5, "", f"{CANARY}:x", [], {}, *NUMBERS, *NAMES])

    # --- deltas ---

    def placed(self, one: bytes, ledger: Ledger) -> bytes:
        """A delta that comes where its chains stand, with something wrong in it."""
        if one[3] != messages.DELTA:
            return self.rewritten(one, ledger)
        delta = decode(one)
        assert isinstance(delta, Delta)
        dice, parts = self.dice, [bytes(part) for part in delta.parts]
        stands = {chain: ledger.positions.get(chain, Position(1, 0)) for chain in delta.ranges}
        ranges = {chain: ChainRange(at.epoch or 1, at.at, at.at + 1) for chain, at in stands.items()}
        advances = dict(delta.advances.items())
        match dice.randrange(6):
            case 0 if advances:
                chain = dice.choice(list(advances))
                advances[chain] = self.other_advance(advances[chain])
            case 1 if self.parts:
                parts.append(dice.choice(self.parts))
            case 2:
                ranges = {dice.choice([*NAMES, chain]): stretch for chain, stretch in ranges.items()}
                advances = {chain: advance for chain, advance in advances.items() if chain in ranges}
            case _ if parts:
                at = dice.randrange(len(parts))
                parts[at] = self.changed(parts[at])
        return encode(Delta(ranges, advances, parts))

    def other_advance(self, advance: Advance) -> Advance:
        dice = self.dice
        changed = {"sources": advance.sources.copy(), "counts": advance.counts.copy(), "rises": advance.rises.copy()}
        column = changed[dice.choice(["counts", "rises"])]
        number = dice.choice([one for one in NUMBERS if -(2**63) <= one < 2**63])
        if len(column):
            column[dice.randrange(len(column))] = (
                abs(number) if column is changed["counts"] and number > -(2**63) else number
            )
        latest = number if dice.random() < 0.3 else advance.latest
        return Advance(changed["sources"], np.abs(changed["counts"]), changed["rises"], latest)

    # --- what is worse ---

    def hostile(self, one: bytes, ledger: Ledger) -> bytes:
        """The known attacks, at the place where they would count."""
        dice = self.dice
        chain = dice.choice(["A", "B", "C"])
        at = ledger.positions.get(chain, Position(1, 0))
        stretch = {chain: ChainRange(at.epoch or 1, at.at, at.at + 1)}
        return dice.choice(ATTACKS)(dice, chain, stretch)


def _events_part(chain: str, table: pa.Table, compression: str | None = None) -> bytes:
    writer = Writer(1).number(2).signed(-1).blob(chain.encode()).number(1).number(0)
    return writer.blob(table_to_bytes(table, compression)).number(0).finish()


def wild_offset(_: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    """A text column whose middle offset points far out of its buffer."""
    offsets = pa.py_buffer(np.array([0, 2**30, 2], np.int32).tobytes())
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    table = pa.table({"time": [1, 2], "offset": [0, 1], "column k": text})
    return encode(Delta(stretch, {}, [_events_part(chain, table)]))


def wild_index(_: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    """An index out of its dictionary."""
    indices = pa.array([0, 7], pa.int32())
    text = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
    table = pa.table({"time": [1, 2], "offset": [0, 1], "column k": text})
    return encode(Delta(stretch, {}, [_events_part(chain, table)]))


def packed_table(_: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    """A table that is some kilobytes packed, and many megabytes unpacked."""
    zeros = np.zeros(4_000_000, np.int64)
    return encode(Delta(stretch, {}, [_events_part(chain, pa.table({"time": zeros, "offset": zeros}), "zstd")]))


def long_index(_: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    """A dictionary of one long text that every row names."""
    zeros = np.zeros(20_000, np.int64)
    text = pa.DictionaryArray.from_arrays(pa.array(zeros.astype(np.int8)), pa.array(["x" * 100_000]))
    return encode(
        Delta(stretch, {}, [_events_part(chain, pa.table({"time": zeros, "offset": zeros, "column k": text}))])
    )


def many_sources(_: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    tree = ["many", "mallory", 0, 0, [[f"s{i}", ""] for i in range(200_000)], ""]
    return frame(messages.HELLO, _text_body(tree))


def named_code(dice: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    """Partials of an operator in a module that nobody here knows."""
    name = json.dumps(["user", "v", {"operator": "x", "path": f"{CANARY}:x"}])
    kind = dice.choice([name, json.dumps(["count", None, None])])
    user = Writer(1).blob(f"{CANARY}:x".encode()).objects([b"1"]).finish()
    partials = Writer(1).number(1).blob(kind.encode()).number(10).blob(user).finish()
    zero = np.zeros(1, np.int64)
    part = Writer(1).number(1).number(0).number(0).number(0).ints(zero).ints(zero).number(0).blob(partials).finish()
    return encode(Delta(stretch, {}, [part]))


def many_chains(_: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    return encode(messages.Positions(False, {f"x{i}": Position(1, 1) for i in range(20_000)}))


def anothers_chain(_: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    return encode(Delta(stretch, {chain: Advance.of([0], [1], [0])}, []))


def anothers_hello(_: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    schema = schema_to_bytes(pa.schema({"time": pa.int64()}))
    return encode(messages.Hello(chain, "mallory", stretch[chain].epoch, 0, ((chain.lower(), ""),), schema))


def falling(dice: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    rise, count = dice.choice([(-5, 1), (1, 2**63 - 1), (-(2**63), 0)])
    return encode(Delta(stretch, {chain: Advance.of([0], [count], [rise])}, []))


def equal_numbers(dice: Random, chain: str, stretch: dict[str, ChainRange]) -> bytes:
    """Columns of a few bytes, each of millions of equal numbers."""
    column = Writer(1).ints(np.zeros(1 << 22, np.int64)).finish()
    partials = Writer(1).number(40)
    for number in range(40):
        partials.blob(json.dumps(["count", f"c{number}", None]).encode()).number(1).blob(column)
    zeros = np.zeros(1 << 22, np.int64)
    part = Writer(1).number(1).number(0).number(0).number(0).ints(zeros).ints(zeros).number(0).blob(partials.finish())
    return encode(Delta(stretch, {}, [part.finish()]))


Attack = Callable[[Random, str, dict[str, ChainRange]], bytes]
#: The nine of finding A4, and two of their kind.
ATTACKS: tuple[Attack, ...] = (
    wild_offset, wild_index, packed_table, many_sources, named_code, many_chains, anothers_chain, anothers_hello, falling,
    long_index, equal_numbers,
)  # fmt: skip
WAYS = (
    Forge.plain, Forge.damaged, Forge.reframed, Forge.renamed, Forge.made_up, Forge.rewritten, Forge.placed, Forge.hostile
)  # fmt: skip
WEIGHTS = (40, 30, 200, 30, 60, 200, 438, 2)
