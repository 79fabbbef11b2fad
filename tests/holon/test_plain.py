"""Windowed CRDTs as plain objects: merging is a join, and final windows are those of one machine."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import DataError, FormatError, QueryError
from headwater.holon.plain import CRDTReplica, NotFinalError

NAMES = ("a", "b", "c")
STATES: dict[str, hw.WindowedCRDT] = {
    "counter": hw.WindowedCRDT(hw.crdts.GCounter(), hw.tumbling(10), columns={"value": int}),
    "set": hw.WindowedCRDT(hw.crdts.GSet(), hw.sliding(20, 10), columns={"value": int}),
    "map": hw.WindowedCRDT(hw.crdts.PNCounter(), hw.tumbling(10), keys=["key"], columns={"value": int, "key": str}),
    "last": hw.WindowedCRDT(hw.crdts.LWWRegister(), hw.session(4), columns={"value": int}),
    "count": hw.WindowedCRDT(hw.crdts.MaxRegister(), hw.count_tumbling(3), columns={"value": int}),
}


def grown(
    state: str, dice: Random, turns: int
) -> tuple[list[CRDTReplica], list[tuple[str, int, int, Any]], list[bytes]]:
    """Replicas of all partitions, what was inserted, and what was told."""
    replicas = [STATES[state].replica(name, NAMES) for name in NAMES]
    times, inserted, told = dict.fromkeys(NAMES, 0), [], []
    for _ in range(turns):
        replica = dice.choice(replicas)
        times[replica.partition] += dice.randrange(6)
        time = times[replica.partition]
        key = dice.choice("xy") if state == "map" else None
        value = dice.randrange(-9, 9)
        replica.insert(value, time, key)
        inserted.append((replica.partition, time, value, key))
        replica.increment_watermark(time)
        if dice.random() < 0.5:
            told.append(replica.delta())
        if told and dice.random() < 0.7:  # in any order, again and again
            dice.choice(replicas).merge(dice.choice(told))
        if dice.random() < 0.2:
            dice.choice(replicas).merge(dice.choice(replicas).to_bytes())
    return replicas, inserted, told


def oracle(state: str, inserted: list[tuple[str, int, int, Any]]) -> dict[tuple[int, int], Any]:
    """What one machine says that saw all of it in order, by window."""
    engine = hw.Engine([STATES[state].query("q")])
    for name in NAMES:
        rows = [(time, value, key) for source, time, value, key in inserted if source == name]
        columns = {"time": [row[0] for row in rows], "value": [row[1] for row in rows], "key": [row[2] for row in rows]}
        types = pa.schema({"time": pa.int64(), "value": pa.int64(), "key": pa.string()})
        engine.push(pa.table(columns, schema=types), source=name)
    engine.flush()
    found: dict[tuple[int, int], Any] = {}
    for row in engine.results()["q"].to_pylist():
        bounds = (row["window_start"], row["window_end"])
        bounds = bounds if bounds[0] is not None else (row["position_start"], row["position_end"])
        if state == "map":
            found.setdefault(bounds, {})[row["key"]] = row["value"]
        else:
            found[bounds] = row["value"]
    return found


def read(replica: CRDTReplica, bounds: tuple[int, int]) -> Any:
    value = replica.window_value(hw.WindowRead(*bounds))
    return dict(zip(*value.to_pydict().values())) if isinstance(value, pa.Table) else value


@pytest.mark.parametrize("state", STATES)
@given(seed=st.integers(0, 2**32), turns=st.integers(0, 40))
def test_any_order_of_merges_ends_with_the_windows_of_one_machine(state: str, seed: int, turns: int) -> None:
    replicas, inserted, _ = grown(state, Random(seed), turns)
    for replica in replicas:
        replica.end()
    for replica in replicas:
        for other in replicas:
            replica.merge(other)
    for bounds, value in oracle(state, inserted).items():
        assert [read(replica, bounds) for replica in replicas] == [value] * 3
    # Equal knowledge is equal, whichever way it came.
    assert len({replica.to_bytes() for replica in replicas}) <= 3
    assert len({replica.global_watermark for replica in replicas}) == 1


@given(seed=st.integers(0, 2**32), turns=st.integers(0, 30))
def test_merge_is_associative_commutative_and_idempotent(seed: int, turns: int) -> None:
    dice = Random(seed)
    replicas, _, _ = grown("counter", dice, turns)
    x, y, z = (replica.to_bytes() for replica in replicas)

    def joined(*states: bytes) -> list[Any]:
        made = STATES["counter"].replica("a", NAMES)
        for state in states:
            made.merge(state)
        prefixes = made._replica.prefixes.chains
        return [(name, prefix.version, prefix.step, made.global_watermark) for name, prefix in prefixes.items()]

    assert joined(x, y, z) == joined(z, x, y) == joined(y, z, x, y, x, x)


@given(seed=st.integers(0, 2**32))
def test_a_final_window_never_changes_and_is_the_same_everywhere(seed: int) -> None:
    dice = Random(seed)
    replicas = [STATES["counter"].replica(name, NAMES) for name in NAMES]
    seen: dict[int, int] = {}
    time = 0
    for _ in range(60):
        replica = dice.choice(replicas)
        time += dice.randrange(4)
        replica.insert(1, time)
        replica.increment_watermark(time)
        replica.merge(dice.choice(replicas))
        for start in range(0, time, 10):
            value = replica.peek(start)
            if value is not None:
                assert seen.setdefault(start, value) == value


def test_reading_what_is_not_final_is_refused_or_none():
    replica = STATES["counter"].replica("a", ["a", "b"])
    replica.insert(1, 3)
    replica.increment_watermark(50)
    assert replica.peek(3) is None
    with pytest.raises(NotFinalError, match=r"\[0, 10\) is not final.*waiting for b"):
        replica.window_value(3)


def test_wrong_uses_are_refused_with_the_right_form():
    with pytest.raises(QueryError, match="partition is 'c': it has to be one of the partitions, a, b"):
        STATES["counter"].replica("c", ["a", "b"])
    with pytest.raises(QueryError, match="the state reads 'price': say its type"):
        hw.WindowedCRDT(hw.sum("price"), hw.tumbling(10)).replica("a", ["a"])
    replica = STATES["map"].replica("a", ["a"])
    with pytest.raises(DataError, match=r"has the keys key: key is \('x', 'y'\)"):
        replica.insert(1, 3, ("x", "y"))
    with pytest.raises(DataError, match="time is 'now'"):
        replica.insert(1, "now", "x")
    with pytest.raises(QueryError, match="a time is in several windows"):
        STATES["set"].replica("a", ["a"]).peek(3)
    with pytest.raises(FormatError):
        replica.merge(b"\x01\x07\x00")


def test_parts_of_another_state_are_refused_before_they_are_kept():
    other = STATES["set"].replica("b", NAMES)
    other.insert(1, 3)
    other.increment_watermark(100)
    replica = STATES["counter"].replica("a", NAMES)
    before = replica.to_bytes()
    with pytest.raises(FormatError, match="cannot be"):
        replica.merge(other.delta())
    assert replica.to_bytes() == before
