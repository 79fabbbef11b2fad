"""The worked numbers of Deco's paper (as data in tests/cases/papers.json), each against the code that does what they describe."""

import numpy as np

from case_files import FOLDER
from headwater.cases import read_cases
from headwater.engine.counting.approx import LocalWindows, split_evenly
from headwater.engine.counting.search import search
from headwater.protocols.local_sizes import predict, timeout

CASES = {case["id"]: case for case in read_cases(FOLDER / "papers.json")}


def case(name: str) -> dict:
    return CASES[f"deco-paper-{name}"]


def taken_from_buffer(size: int, in_front: int, slices: list[int], behind: int) -> tuple[int, bool]:
    """How many raw events behind the slices complete a window, and whether that is proven: slices lie between raw events."""
    fronts, ends = np.arange(in_front), 10_000 + np.arange(behind)
    first = np.concatenate((fronts, np.full(len(slices), 5_000), ends))
    last = np.concatenate((fronts, np.full(len(slices), 9_000), ends))
    counts = np.concatenate((np.ones(in_front, np.int64), slices, np.ones(behind, np.int64)))
    ranks, zeros = np.arange(len(counts)), np.zeros(len(counts), np.int64)
    order = np.lexsort((ranks, first))
    first, last, counts, ranks = (column[order] for column in (first, last, counts, ranks))
    keys = (first, ranks, zeros), (last, ranks, zeros)
    found = search(zeros, *keys, counts, zeros[:1], np.array([[size, size, 0]]), 20_000)
    is_inside = found.settled & (found.position < size)
    return int((is_inside & (first >= 10_000)).sum()), bool(counts[is_inside].sum() == size)


def raw_zone(size: int, delta: int) -> tuple[int, int]:
    """From which to which of its events a leaf sends them raw, around the end of a window of about so many of them."""
    found = LocalWindows(0, size, delta).ranges(np.arange(size + delta), 0, 1 << 40)
    starts = [*found.starts.tolist(), size + delta]
    (place,) = np.flatnonzero(found.is_raw).tolist()
    return starts[place], starts[place + 1]


def async_parts(size: int, delta: int) -> tuple[int, int, int]:
    """Aggregated events, and raw ones in front of them and behind: equations 9 and 10."""
    if size <= 2 * delta:
        return 0, size // 2, size - size // 2
    return size - 2 * delta, delta, delta


def test_sizes_follow_the_rates():
    split = case("split")
    assert split_evenly(np.array(split["rates"]), split["global_size"]).tolist() == split["expected_local_sizes"]


def test_prediction_and_delta_are_those_of_the_paper():
    told = case("predict")
    assert predict(told["last_two"], 8) == (told["expected_prediction"], told["expected_delta"])


def test_slice_and_buffer_of_sync_are_those_of_the_paper():
    told = case("sync-slice")
    begin, end = raw_zone(told["prediction"], told["delta"])
    assert (begin, end - begin) == (told["expected_slice"], told["expected_buffer"])


def test_sync_accepts_sizes_within_the_bounds_of_the_paper():
    told = case("sync-verify")
    begin, end = raw_zone(told["prediction"], told["delta"])
    for actual, expected in told["rows"]:
        assert (begin <= actual < end) == expected, actual


def test_the_root_completes_a_window_from_its_buffer():
    told = case("sync-root")
    taken = taken_from_buffer(told["global_size"], 0, told["slices"], sum(told["buffers"]))
    assert taken == (told["expected_take_from_sorted_buffer"], True)


def test_slice_and_buffers_of_async_are_those_of_the_paper():
    told = case("async-slice")
    wanted = (told["expected_slice"], told["expected_front_buffer"], told["expected_end_buffer"])
    assert async_parts(told["prediction"], told["delta"]) == wanted
    assert async_parts(1_000, 1_000) == (0, 500, 500)


def test_the_root_carries_its_buffer_on_in_async():
    told = case("async-root")
    before = told["previous_root_buffer"] + sum(told["front_buffers"])
    assert before == told["expected_previous_buffer"]
    taken = taken_from_buffer(told["global_size"], before, told["slices"], sum(told["end_buffers"]))
    assert taken == (told["expected_take_from_current"], told["expected_ok"])


def test_the_timeout_is_that_of_equation_16():
    told = case("timeout")
    assert timeout(told["prediction"], told["delta"], told["rate"]) == told["expected_seconds"]
