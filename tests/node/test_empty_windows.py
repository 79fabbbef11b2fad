"""Windows without events at a root come bit by bit: the same in any bits, and where there are none no time is walked through."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.engine import state
from headwater.engine.groups.replay.formers import FixedFormer
from headwater.engine.windows import empty_windows
from headwater.engine.windows.fixed import FixedWindows
from headwater.protocols.events import QueryRemoved
from headwater.simulator.instant import InstantTree

SCHEMA = pa.schema({"time": pa.int64(), "k": pa.string(), "v": pa.int64()})
FAR = 9 * 10**14
#: A window so long that events before FAR are held for it all the time.
LONG = hw.query("long", hw.tumbling(10**15), keys=["k"], n=hw.count())


def batch(*times: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"time": t, "k": "xyz"[t % 3], "v": n} for n, t in enumerate(times)], SCHEMA)


def played(step: int, queries, near, far, drained: str) -> tuple[list[str], int]:
    """The rows of a story in which so many windows come at once, and how often the root asked how far it may go."""
    asked = 0

    def counted(owner):
        inner = owner.reach

        def reach(*facts):
            nonlocal asked
            asked += 1
            assert asked < 10_000, "the root walks through time in which nothing is shown"
            return inner(*facts)

        return owner, "reach", reach

    with pytest.MonkeyPatch.context() as patch:
        for module in (state, empty_windows):
            patch.setattr(module, "EMPTY_STEP", step)
        for owner in (FixedWindows, FixedFormer):
            patch.setattr(*counted(owner))
        tree = InstantTree({"A": "root"}, queries, schema=SCHEMA)
        tree.open("A", "a", schema=SCHEMA)
        for moment, times in (("at once", ()), ("later", near), ("", far)):
            if times:
                tree.push("a", batch(*times), max(times))
            if drained == moment:
                tree.tell_root(QueryRemoved("filled", drain=True))
        tree.flush()
    return sorted(map(str, tree.take_rows().to_pylist())), asked


@given(
    size=st.integers(1, 12),
    slide=st.integers(1, 14),
    distinct=st.sampled_from([None, "v"]),
    is_long=st.booleans(),
    near=st.lists(st.integers(0, 40), min_size=1, max_size=5).map(sorted),
    far=st.sampled_from([60, 300, FAR]),
    drained=st.sampled_from(["at once", "later", "never"]),
)
def test_in_any_bits_the_same_windows_come_and_no_time_without_any_is_walked_through(
    size, slide, distinct, is_long, near, far, drained
):
    if drained == "never" and far == FAR:
        # Between its windows: else there would be no end of those without events.
        slide = size + 3
        near, far = [t - t % slide + size for t in near], FAR - FAR % slide + size
    filled = hw.query("filled", hw.sliding(size, slide), keys=["k"], n=hw.count(), emit_empty=True, distinct=distinct)
    story = [filled, *([LONG] if is_long else [])], near, [far], drained
    rows, asked = played(8, *story)
    assert rows == played(1 << 18, *story)[0]
    assert asked <= 50 + 2 * len(rows)
