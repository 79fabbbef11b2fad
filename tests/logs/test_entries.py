"""Entries: torn ones are the end, damaged ones an error, and what users write is never taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.logs.entries import HEADER_BYTES, entries, framed
from headwater.logs.errors import DamageError

WRITTEN = st.lists(st.tuples(st.sampled_from([b"r", b"c"]), st.binary(max_size=40)), min_size=1, max_size=8)


def file_of(written: list[tuple[bytes, bytes]], is_synced: bool = True) -> tuple[bytes, list[int]]:
    file, starts = b"", []
    for kind, data in written:
        starts.append(len(file))
        file += framed(kind, data, len(file), len(file) if is_synced else 0)
    return file, starts


def read(file: bytes) -> list[tuple[bytes, bytes]]:
    return [(entry.kind, entry.data) for entry in entries(file, Path("journal"))]


@given(WRITTEN, st.integers(0, 400))
def test_what_was_cut_short_or_is_a_hole_ends_the_file(written, size):
    file, starts = file_of(written)
    size = min(size, len(file))
    whole = [entry for start, entry in zip(starts, written) if start + HEADER_BYTES + len(entry[1]) <= size]
    assert read(file[:size]) == read(file[:size] + bytes(50)) == whole


@given(WRITTEN, st.integers(0, 10**6))
def test_a_flipped_bit_is_damage_if_an_entry_follows_and_else_the_end(written, place):
    file, starts = file_of(written)
    flipped = bytearray(file)
    flipped[place % len(file)] ^= 1 << place % 8
    if place % len(file) >= starts[-1]:
        assert read(bytes(flipped)) == written[:-1]
    else:
        with pytest.raises(DamageError, match="journal, byte"):
            read(bytes(flipped))


def test_what_was_never_synced_may_be_lost_though_more_follows():
    file, starts = file_of([(b"r", b"one"), (b"r", b"two"), (b"r", b"three")], is_synced=False)
    assert read(file[: starts[1]] + bytes(starts[2] - starts[1]) + file[starts[2] :]) == [(b"r", b"one")]


def test_a_file_of_entries_within_an_entry_proves_nothing():
    inner, _ = file_of([(b"r", b"one"), (b"r", b"two")])
    assert read(framed(b"r", inner, 0, 0)[:-1]) == []
