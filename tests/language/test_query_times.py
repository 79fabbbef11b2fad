"""Durations: every spelling a user may write, exact conversion to ticks, and a canonical text that reads back."""

from __future__ import annotations

import pickle
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import QueryError
from headwater.language.times import Nanos, duration, in_ticks, try_duration


@pytest.mark.parametrize(
    ("written", "nanos"),
    [
        ("10 s", 10 * 10**9),
        ("10s", 10 * 10**9),
        ("  10  sec ", 10 * 10**9),
        ("5 min", 300 * 10**9),
        ("5 m", 300 * 10**9),
        ("250 ms", 250 * 10**6),
        ("7 us", 7_000),
        ("7 µs", 7_000),
        ("7 μs", 7_000),
        ("3 ns", 3),
        ("1 h", 3_600 * 10**9),
        ("2 hours", 7_200 * 10**9),
        ("1 day", 86_400 * 10**9),
        ("2 weeks", 14 * 86_400 * 10**9),
        ("1.5 s", 1_500_000_000),
        ("0.1 us", 100),
        ("1 min 30 s", 90 * 10**9),
        ("1h30m", 5_400 * 10**9),
        ("-5 s", -5 * 10**9),
        ("10 SECONDS", 10 * 10**9),
        (timedelta(seconds=1, microseconds=5), 1_000_005_000),
        (timedelta(days=-1), -86_400 * 10**9),
    ],
)
def test_every_spelling_of_a_duration_is_read(written: object, nanos: int) -> None:
    assert duration(written) == Nanos(nanos)


@pytest.mark.parametrize("plain", [0, 5, -5, np.int64(7), "0 s", timedelta(0)])
def test_integers_are_ticks_and_zero_needs_no_unit(plain: object) -> None:
    read = duration(plain)
    assert type(read) is int
    assert read == (plain if isinstance(plain, int | np.integer) else 0)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "s",
        "10",
        "10 apples",
        "1,5 s",
        "1e3 s",
        "0.5 ns",
        "5 s 3",
        "s 5",
        "--5 s",
        "٣ s",
        1.5,
        True,
        None,
        [1],
        b"5 s",
    ],
)
def test_what_is_no_duration_is_refused(wrong: object) -> None:
    assert try_duration(wrong) is None
    with pytest.raises(QueryError, match="write a duration such as '10 s'"):
        duration(wrong)


@given(st.integers(-(10**24), 10**24).filter(bool))
def test_the_canonical_text_reads_back(nanos: int) -> None:
    assert duration(str(Nanos(nanos))) == Nanos(nanos)
    assert pickle.loads(pickle.dumps(Nanos(nanos))) == Nanos(nanos)


@given(st.integers(-(10**15), 10**15), st.sampled_from([("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9)]))
def test_ticks_are_exact_or_refused(nanos: int, unit: tuple[str, int]) -> None:
    name, size = unit
    assert in_ticks(Nanos(nanos * size), name) == nanos
    if nanos % size:
        with pytest.raises(QueryError, match=f"give a whole number of {name}"):
            in_ticks(Nanos(nanos), name)
    else:
        assert in_ticks(Nanos(nanos), name) * size == nanos


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(QueryError, match=r"unit is 'minutes': .* 'ns', 'us', 'ms', 's'"):
        in_ticks(5, "minutes")


def test_nanos_are_equal_only_to_nanos() -> None:
    assert Nanos(10) != 10
    assert 10 != Nanos(10)  # noqa: SIM300
    assert Nanos(10) == Nanos(10)
    assert len({10, Nanos(10)}) == 2
    assert Nanos(10) < Nanos(11)
