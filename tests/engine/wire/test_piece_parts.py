"""Pieces as bytes and back, several parts as one, and bytes that are none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.engine.wire.looks import Look, looks_from_bytes, looks_to_bytes
from headwater.engine.wire.merge import merge_pieces
from headwater.engine.wire.part_bytes import part_from_bytes, part_to_bytes
from headwater.engine.wire.parts import HEAD_ANSWERS, PiecesPart
from headwater.errors import FormatError
from headwater.protocols.count_windows import Counting
from headwater.protocols.delta import Delta
from headwater.protocols.messages import decode
from headwater.simulator.instant import InstantTree


def sent(scheme: str, per: str = "all") -> list[PiecesPart]:
    """All parts of pieces that two leaves send for some random events."""
    rng = np.random.default_rng(7)
    query = hw.query("q", hw.count_tumbling(40, per=per), keys=["k"], n=hw.count(), s=hw.sum("v"), m=hw.median("v"))
    tree = InstantTree({"one": "root", "two": "root"}, [query], disorder=0, counting=Counting(scheme))
    frames: list[bytes] = []
    handle = tree.root.handle

    def heard(event, now_ns):
        frames.append(bytes(getattr(event, "frame", b"")))
        return handle(event, now_ns)

    tree.root.handle = heard
    for leaf in ("one", "two"):
        tree.open(leaf, leaf, schema=pa.schema({"time": pa.int64(), "k": pa.string(), "v": pa.float64()}))
    for begin in range(0, 1000, 100):
        for leaf in ("one", "two"):
            times = np.sort(rng.integers(begin, begin + 100, 60))
            keys = rng.choice(["a", "b", "c"], 60).tolist()
            tree.push(leaf, pa.record_batch({"time": times, "k": keys, "v": rng.random(60)}))
    tree.flush()
    assert tree.take_rows().num_rows
    deltas = [message for message in map(decode, filter(None, frames)) if isinstance(message, Delta)]
    parts = [part_from_bytes(data) for delta in deltas for data in delta.parts]
    return [part for part in parts if isinstance(part, PiecesPart)]


PARTS = [*sent("monitor"), *sent("async"), *sent("async", per="key")]


def said(part: PiecesPart) -> list[tuple]:
    """What a part says, piece by piece and event by event, whatever the numbers in it."""
    keys = list(zip(*(column.to_pylist() for column in part.key_columns)))
    found = []
    for place in range(len(part.sizes)):
        head = part.heads[:, part.head[place]].tolist()
        rows = np.flatnonzero(part.piece == place)
        partials = tuple(sorted((str(op), c.take(rows).to_bytes()) for op, c in part.partials.items()))
        own = [keys[key] for key in part.key[rows].tolist()]
        ends = part.first[:, place].tolist(), part.last[:, place].tolist()
        found.append((part.chains[head[0]], *head[1:], int(part.sizes[place]), *ends, own, partials))
    if part.raw is not None:
        values = list(zip(*(column.to_pylist() for column in part.raw.columns.values())))
        heads = np.repeat(part.raw.head, part.raw.sizes)
        for event, key in enumerate(part.raw.key.tolist()):
            head = part.heads[:, heads[event]].tolist()
            place = part.raw.places[:, event].tolist()
            found.append((part.chains[head[0]], *head[1:], place, keys[key], values[event]))
    return found


def test_there_are_pieces_of_every_kind():
    assert any(len(part.sizes) for part in PARTS)
    assert any(part.raw is not None for part in PARTS)
    assert any((part.heads[HEAD_ANSWERS] >= 0).any() for part in PARTS)
    assert any(len(part.piece) > len(part.sizes) for part in PARTS)


@pytest.mark.parametrize("place", range(0, len(PARTS), 5))
def test_bytes_say_what_the_part_says(place: int):
    assert said(part_from_bytes(part_to_bytes(PARTS[place]))) == said(PARTS[place])


@given(st.lists(st.sampled_from(range(len(PARTS))), min_size=1, max_size=6, unique=True))
def test_parts_as_one_say_what_they_said_one_by_one(places: list[int]):
    parts = [PARTS[place] for place in places]
    merged = [part_from_bytes(part_to_bytes(part)) for part in merge_pieces(parts)]
    assert len(merged) <= len(parts)
    assert sorted(map(repr, (line for part in merged for line in said(part)))) == sorted(
        map(repr, (line for part in parts for line in said(part)))
    )


@given(st.sampled_from(range(len(PARTS))), st.data())
def test_damaged_bytes_are_refused_or_are_another_part(place: int, data: st.DataObject):
    damaged = bytearray(part_to_bytes(PARTS[place]))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(2, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        part = part_from_bytes(bytes(damaged[: data.draw(st.integers(2, len(damaged)))]))
    except FormatError:
        return
    assert isinstance(part, PiecesPart)


def test_looks_come_back_as_they_were():
    keys = np.array([5, 0, 7]), np.array([9, 1, 3])
    looks = {3: [Look(11, 4, *keys, 6, 8, [pa.array(["a"])]), Look(12, 2, *keys, 5, 5)]}
    back = looks_from_bytes(looks_to_bytes(looks))
    assert [(look.number, look.count, look.first.tolist(), look.low, look.high) for look in back[3]] == [
        (11, 4, [5, 0, 7], 6, 8),
        (12, 2, [5, 0, 7], 5, 5),
    ]
    assert back[3][0].key_columns[0].to_pylist() == ["a"]
    with pytest.raises(FormatError):
        looks_from_bytes(looks_to_bytes(looks)[:-1])
