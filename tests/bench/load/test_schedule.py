"""The pure half of the load driver: schedules, verdicts and percentiles, on generated input and without a clock."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.bench.load.judgement import SPANS, LoadSample, judge, latency, percentile, slope_of, troughs
from headwater.bench.load.schedule import Content, Schedule, events_of
from headwater.errors import DataError

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND

schedules = st.builds(
    Schedule,
    rate=st.integers(1, 20_000_000),
    seconds=st.floats(0.001, 1_000),
    begin_us=st.integers(0, 2 * BEGIN),
)


# --- schedules ---


@given(schedules, st.integers(-SECOND, 1_001 * SECOND))
def test_due_counts_the_events_with_smaller_times(schedule, passed):
    now = schedule.begin_us + passed
    count = schedule.due(now)
    if count:
        assert schedule.times(count - 1, count)[0] < min(now, schedule.end_us)
    if count < schedule.events:
        assert schedule.times(count, count + 1)[0] >= now


@given(schedules, st.integers(0, 2**40), st.integers(0, 100), st.integers(0, 100))
def test_times_do_not_depend_on_how_they_are_asked_for(schedule, first, count, more):
    whole = schedule.times(first, first + count + more)
    parts = [schedule.times(first, first + count), schedule.times(first + count, first + count + more)]
    assert whole.tolist() == np.concatenate(parts).tolist()
    exact = [schedule.begin_us + number * SECOND // schedule.rate for number in range(first, first + count + more)]
    assert whole.tolist() == exact


@given(schedules, st.integers(1_000, 100_000))
def test_slots_hand_over_every_event_once_and_none_early(schedule, slot_us):
    assume(schedule.seconds * SECOND / slot_us < 10_000)
    slots = list(schedule.slots(slot_us))
    assert slots[-1] == (schedule.end_us, schedule.events)
    before = 0
    for at_us, stop in slots:
        assert stop >= before
        if stop > before:
            assert schedule.times(stop - 1, stop)[0] < at_us
        before = stop


@given(schedules, st.integers(1, 50), st.floats(0, 100), st.floats(0, 100))
def test_window_ends_are_those_of_whole_windows_between_warm_up_and_tail(schedule, size, warm_up_s, tail_s):
    size_us = size * SECOND // 4
    assume(schedule.seconds * SECOND / size_us < 1_000)
    ends = schedule.window_ends(size_us, warm_up_s=warm_up_s, tail_s=tail_s)
    candidates = [k * size_us for k in range(schedule.begin_us // size_us - 1, schedule.end_us // size_us + 2)]
    warm, last = schedule.begin_us + round(warm_up_s * SECOND), schedule.end_us - round(tail_s * SECOND)
    assert ends == [end for end in candidates if end - size_us >= schedule.begin_us and warm <= end <= last]


@given(st.integers(1, 20), st.integers(0, 1_000), st.integers(0, 100), st.integers(0, 100))
def test_content_does_not_depend_on_how_it_is_asked_for(block, first, count, more):
    content, middle, end = Content(block=block), first + count, first + count + more
    for whole, *parts in zip(content.columns(first, end), content.columns(first, middle), content.columns(middle, end)):
        assert whole.tolist() == np.concatenate(parts).tolist()
    batch = events_of(Schedule(7, 1), content, first, end)
    assert batch["key"].to_pylist() == content.columns(first, end)[0].tolist()


@pytest.mark.parametrize("wrong", [{"rate": 0, "seconds": 1}, {"rate": 1, "seconds": 0}])
def test_a_schedule_without_events_is_refused(wrong):
    with pytest.raises(DataError, match="give"):
        Schedule(**wrong)


# --- verdicts ---


def sawtooth(schedule: Schedule, gulp_s: float, served: float, held_s: float, step_s: float = 0.05) -> list[LoadSample]:
    """A system that takes events in gulps, ``served`` of the rate, with so many seconds of events always in the queue."""
    samples = []
    for number in range(round(schedule.seconds / step_s) + 1):
        passed = number * step_s
        at_us = schedule.begin_us + round(passed * SECOND)
        taken_s = max(math.floor(passed / gulp_s) * gulp_s * served - held_s, 0.0)
        samples.append(LoadSample(at_us, schedule.due(at_us), int(taken_s * schedule.rate)))
    return samples


rates = st.integers(1_000, 10_000_000)


@given(rates, st.floats(0.1, 1.5), st.floats(0, 2))
def test_a_level_queue_is_sustainable_however_large_the_gulps(rate, gulp_s, held_s):
    schedule = Schedule(rate, 30, BEGIN)
    # Served as fast as events come: the troughs are level, up to the samples' own grain.
    verdict = judge(sawtooth(schedule, gulp_s, 1.0, held_s), schedule, warm_up_s=6)
    assert verdict.is_sustainable, verdict.reason


@given(rates, st.floats(0.1, 1.5), st.floats(0.2, 0.93))
def test_a_queue_that_keeps_growing_is_not_sustainable(rate, gulp_s, served):
    schedule = Schedule(rate, 30, BEGIN)
    verdict = judge(sawtooth(schedule, gulp_s, served, 0.0), schedule, warm_up_s=6)
    assert not verdict.is_sustainable, verdict.reason
    assert verdict.slope == pytest.approx((1 - served) * rate, abs=0.05 * rate)


@given(rates, st.floats(0, 5))
def test_a_queue_that_shrinks_after_a_slow_start_is_sustainable(rate, start_s):
    schedule = Schedule(rate, 30, BEGIN)
    samples = []
    for number in range(601):
        at_us = BEGIN + number * SECOND // 20
        due = schedule.due(at_us)
        samples.append(LoadSample(at_us, due, min(due, max(0, int((number / 20 - start_s) * 1.5 * rate)))))
    verdict = judge(samples, schedule, warm_up_s=10)
    assert verdict.is_sustainable and verdict.slope <= 0


@given(st.floats(10.5, 100))
def test_a_level_queue_may_still_be_too_long(held_s):
    schedule = Schedule(1_000, 30, BEGIN)
    samples = [LoadSample(BEGIN + n * SECOND, 1_000 * n, 1_000 * n - round(held_s * 1_000)) for n in range(31)]
    verdict = judge(samples, schedule)
    assert not verdict.is_sustainable and verdict.queue_max / schedule.rate == pytest.approx(held_s, abs=0.01)
    assert judge(samples, schedule, bound_s=101).is_sustainable


@given(st.lists(st.integers(0, 10_000), min_size=40, max_size=40), st.integers(2, 1_000), st.integers(0, BEGIN))
def test_a_verdict_depends_neither_on_the_scale_nor_on_the_hour(queue, scale, shift):
    def verdict(times, moved):
        schedule = Schedule(1_000 * times, 39, moved)
        samples = [
            LoadSample(moved + n * SECOND, times * 1_000 * n, times * (1_000 * n - q)) for n, q in enumerate(queue)
        ]
        return judge(samples, schedule)

    one, other = verdict(1, 0), verdict(scale, shift)
    assume(abs(one.slope / 1_000 - 0.02) > 1e-6)
    assert one.is_sustainable == other.is_sustainable
    assert other.slope == pytest.approx(one.slope * scale, abs=1e-3 * scale)


def test_what_comes_before_the_warm_up_and_after_the_end_does_not_count():
    schedule = Schedule(100, 20, BEGIN)
    level = [LoadSample(BEGIN + n * SECOND, 100 * n, 100 * n - 5) for n in range(5, 21)]
    before = [LoadSample(BEGIN + n * SECOND, 100 * n, 0) for n in range(5)]
    after = [LoadSample(BEGIN + n * SECOND, 100_000 * n, 0) for n in range(21, 30)]
    assert judge([*before, *level, *after], schedule, warm_up_s=5) == judge(level, schedule)


def test_too_few_samples_give_no_verdict():
    schedule = Schedule(100, 20)
    samples = [LoadSample(n * SECOND, 100 * n, 100 * n) for n in range(20)]
    with pytest.raises(DataError, match=r"9 samples .* after 11 s"):
        judge(samples, schedule, warm_up_s=11)


@given(st.lists(st.tuples(st.integers(1, 1_000), st.integers(0, 1_000)), min_size=2, max_size=100))
def test_troughs_are_the_least_of_each_span(steps):
    at = np.cumsum([0] + [gap for gap, _ in steps[1:]]).astype(float)
    queue = np.array([length for _, length in steps], float)
    low_at, low = troughs(at, queue)
    spans = np.minimum((at * SPANS / at[-1]).astype(int), SPANS - 1)
    assert low.tolist() == [min(queue[spans == span]) for span in sorted(set(spans.tolist()))]
    assert all(queue[at == moment].min() <= length for moment, length in zip(low_at, low))


@given(st.floats(-100, 100), st.floats(-1_000, 1_000), st.integers(2, 50))
def test_the_slope_of_a_line_is_its_slope(slope, height, count):
    at = np.arange(count, dtype=float)
    assert slope_of(at, height + slope * at) == pytest.approx(slope, abs=1e-6)


# --- latency ---

waits = st.lists(st.integers(0, 60 * SECOND), min_size=1, max_size=200)


@given(waits, st.floats(0.1, 100))
def test_a_percentile_is_the_least_value_that_covers_its_share(values, share):
    ordered = sorted(map(float, values))
    found = percentile(ordered, share)
    needed = round(share * len(ordered) / 100, 9)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= needed
    assert sum(value < found for value in ordered) < max(needed, 1)


@given(waits, st.integers(0, 50), st.integers(1, 10))
def test_latency_is_from_the_schedule_and_cuts_by_the_windows_end(values, cut, rows_per_window):
    ends = [BEGIN + (n + 1) * SECOND for n in range(len(values)) if n + 1 >= cut]
    seen = [
        (BEGIN + (n + 1) * SECOND, BEGIN + (n + 1) * SECOND + wait)
        for n, wait in enumerate(values)
        for _ in range(rows_per_window)
    ]
    kept = values[max(cut - 1, 0) :]
    if not kept:
        with pytest.raises(DataError, match="no window"):
            latency(seen, ends)
        return
    found = latency(reversed(seen), ends)
    assert (found.count, found.missing) == (len(kept) * rows_per_window, 0)
    assert found.max_s == max(kept) / SECOND
    assert found.p50_s <= found.p99_s <= found.max_s


@given(st.integers(1, 30), st.sets(st.integers(1, 30)))
def test_a_window_that_never_came_is_endless(windows, lost):
    ends = [BEGIN + n * SECOND for n in range(1, windows + 1)]
    seen = [(end, end + 1_000) for n, end in enumerate(ends, 1) if n not in lost]
    found = latency(seen, expected=ends)
    missing = sum(n in lost for n in range(1, windows + 1))
    assert (found.count, found.missing) == (windows, missing)
    assert math.isinf(found.max_s) == (missing > 0)
    assert math.isinf(found.p50_s) == (2 * missing > windows)


def test_latency_waits_for_every_window_that_can_close():
    schedule = Schedule(10, 5, 1_000_500_000)
    # Whole windows end at 1002 to 1005 s; nothing after 1005.5 s is due.
    seen = [(end * 1_000_000, end * 1_000_000 + 250_000) for end in (1_001, 1_002, 1_003, 1_005)]
    found = latency(seen, schedule.window_ends(SECOND, tail_s=0.1))
    assert (found.count, found.missing, found.p50_s) == (4, 1, 0.25)
    assert latency(seen, schedule.window_ends(SECOND, warm_up_s=4, tail_s=0.1)).count == 1
    assert latency(seen, schedule.window_ends(SECOND, tail_s=0.6)).missing == 1
    assert latency(seen, schedule.window_ends(SECOND, tail_s=1.6)).missing == 0
