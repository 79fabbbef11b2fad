"""Frames that no honest node sends: recorded ones changed in one place or many, and made-up ones.

Whatever is changed within a body gets its checksum anew, so that it reaches what reads bodies and not only what reads frames.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.base.arrow import schema_to_bytes, table_to_bytes
from headwater.base.packing import Writer
from headwater.engine.wire.part_bytes import part_from_bytes, part_to_bytes
from headwater.node import LeafNode
from headwater.protocols import messages
from headwater.protocols.advances import Advance
from headwater.protocols.delta import CUT_SUFFIX, ChainRange, Delta
from headwater.protocols.frames import HEADER, frame
from headwater.protocols.ledger import Ledger, Position
from headwater.protocols.messages import _text, _text_body, decode, encode

#: A module that must never be imported: frames name it wherever code can be named.
CANARY = "headwater_canary"
NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, 2**16, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30)
BYTES = (0, 1, 2, 0x10, 0x40, 0x7F, 0x80, 0x81, 0xFF)
INT64S = tuple(one for one in NUMBERS if -(2**63) <= one < 2**63)
NAMES = ("A", "B", "C", "a", "b", "c", "A#cuts", "nobody", "", "mallory", "\0", "é" * 40)
KINDS = range(14)


class Forge:
    """Makes frames out of recorded ones, some of them such that they come at the right place."""

    def __init__(self, recorded: Sequence[bytes], dice: Random) -> None:
        self.recorded, self.dice = list(recorded), dice
        self.by_kind: dict[int, list[bytes]] = {}
        for one in self.recorded:
            self.by_kind.setdefault(one[3], []).append(one)
        self.kinds = list(self.by_kind)
        self.parts = [bytes(part) for one in self.by_kind[messages.DELTA] for part in decode(one).parts]

    def up(self, ledger: Ledger) -> bytes:
        """For a node that has children: mostly what a leaf would send."""
        dice = self.dice
        kind = messages.DELTA if dice.random() < 0.75 else dice.choice(self.kinds)
        return dice.choices(WAYS, WEIGHTS)[0](self, dice.choice(self.by_kind[kind]), ledger)

    def down(self, leaf: LeafNode) -> bytes:
        """For a leaf, or what lies between: mostly what a root would say to it."""
        dice = self.dice
        kind = dice.choice([kind for kind in self.kinds if kind not in (messages.DELTA, messages.HELLO)])
        if kind == messages.FLUSH and dice.random() < 0.95:
            kind = messages.ASSIGN  # the end of the stream is the end of most that could go wrong
        one = dice.choice(self.by_kind[kind])
        if dice.random() < 0.3:
            return dice.choices(WAYS[:-1], WEIGHTS[:-1])[0](self, one, Ledger())
        return self.obeyed(decode(one), leaf)

    def obeyed(self, message: messages.Message, leaf: LeafNode) -> bytes:
        """What the leaf would follow, with something wrong in it."""
        dice, sender = self.dice, leaf._sender
        match message:
            case messages.Assign():
                right = replace(message, chain=leaf.chain, node=leaf.name, epoch=leaf._epoch + 1)
                return self.rewritten(encode(right), Ledger())
            case messages.Cuts() if sender is not None:
                right = replace(message, number=sender.cut_outbox.end + 1)
                cuts = self.changed(right.cuts, 1) if dice.random() < 0.8 else right.cuts
                return encode(replace(right, cuts=cuts, until=dice.choice([right.until, *INT64S])))
            case messages.CountPlan():
                number = 1 + (0 if leaf._counting.plan is None else leaf._counting.plan.number)
                return self.rewritten(encode(replace(message, number=number)), Ledger())
            case messages.LookInto():
                return encode(replace(message, chain=leaf.chain, looks=self.changed(message.looks, 1)))
            case messages.Positions():
                at = Position(leaf._epoch, dice.choice([0, 1, 2, 3, 5, 10**6, 2**63 - 1]))
                return encode(messages.Positions(dice.random() < 0.5, {leaf.chain: at, leaf.chain + CUT_SUFFIX: at}))
        return encode(message)

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

    def changed(self, data: bytes, places: int | None = None) -> bytes:
        dice, data = self.dice, bytearray(data)
        for _ in range(dice.choice([1, 1, 1, 1, 2, 4, 16]) if places is None else places):
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
                parts[at] = self.changed(parts[at]) if dice.random() < 0.5 else self.other_part(parts[at])
        return encode(Delta(ranges, advances, parts))

    def other_part(self, data: bytes) -> bytes:
        """A part with another number somewhere, or other columns, which can be read as it is."""
        dice = self.dice
        part = part_from_bytes(data, (), None)
        names = [field.name for field in fields(part)]
        name = dice.choice(names)
        value = getattr(part, name)
        if isinstance(value, np.ndarray) and value.size and value.dtype == np.int64:
            value = value.copy()
            value.flat[dice.randrange(value.size)] = dice.choice([*INT64S, int(value.flat[0]) + 1])
        elif isinstance(value, dict) and value and name == "partials":
            ops = list(value)
            value = {**value, dice.choice(ops): value[dice.choice(ops)]}
            if dice.random() < 0.3:
                del value[dice.choice(ops)]
        elif isinstance(value, dict) and value:
            value = {name: dice.choice(list(value.values())) for name in value}
        elif isinstance(value, list) and value and isinstance(value[0], pa.Array):
            value = [dice.choice([pa.array(["x"] * len(value[0])), pa.nulls(len(value[0])), value[0]])]
        elif isinstance(value, int):
            value = dice.choice([0, 1, 2, 3, 5, 7, 9, 10**6])
        elif isinstance(value, str):
            value = dice.choice(NAMES)
        try:
            return part_to_bytes(replace(part, **{name: value}))
        except Exception:  # no node could have written that
            return self.changed(data, 1)

    def other_advance(self, advance: Advance) -> Advance:
        dice = self.dice
        changed = {"sources": advance.sources.copy(), "counts": advance.counts.copy(), "rises": advance.rises.copy()}
        column = changed[dice.choice(["counts", "rises"])]
        number = dice.choice(INT64S)
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
WEIGHTS = (40, 30, 120, 30, 40, 120, 618, 2)
