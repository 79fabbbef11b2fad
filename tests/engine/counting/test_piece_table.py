"""Pieces that are let go of one by one, and those that are let go of at once, leave the same behind."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.engine.counting.piece_table import BLOCK, COUNT, NUMBER, WIDTH, PieceTable


def rows_of(counts: list[int]) -> np.ndarray:
    rows = np.zeros((WIDTH, len(counts)), np.int64)
    rows[COUNT], rows[BLOCK] = counts, 1
    return rows


@given(
    st.lists(
        st.lists(st.integers(1, 9), max_size=5) | st.sets(st.integers(0, 20)) | st.booleans(), min_size=1, max_size=10
    )
)
def test_dropping_is_keeping_the_others(steps: list[list[int] | set[int] | bool]) -> None:
    lazy, eager = PieceTable(), PieceTable()
    for step in steps:
        match step:
            case list():
                for table in (lazy, eager):
                    table.add(rows_of(step))
            case set():
                held = eager.joined()
                is_dropped = np.isin(held[NUMBER], list(step))
                for number, count in held[[NUMBER, COUNT]][:, is_dropped].T.tolist():
                    lazy.drop(number, count)
                eager.keep(~is_dropped)
            case _:
                lazy.joined()
        assert lazy.event_count == eager.event_count
        if step is True:
            assert (lazy.joined() == eager.joined()).all()
    assert (lazy.joined() == eager.joined()).all()
