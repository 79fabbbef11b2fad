"""Count windows over all events: what they cost, with many keys."""

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.engine.windows import counts


@pytest.mark.parametrize("window", [hw.count_tumbling(100), hw.count_sliding(100, 40), hw.count_sliding(10, 25)])
def test_a_count_window_over_all_events_with_keys_costs_its_rows_and_not_windows_times_keys(
    window, monkeypatch: pytest.MonkeyPatch
):
    looked_up = []
    looks = counts.ranges_by_key

    def counted(*arguments):
        looked_up.append(len(arguments[2]))
        return looks(*arguments)

    monkeypatch.setattr(counts, "ranges_by_key", counted)
    rng = np.random.default_rng(5)
    events = pa.table({"time": np.arange(20_000), "k": rng.integers(0, 10_000, 20_000), "v": rng.random(20_000)})
    rows = hw.run(events, [hw.query("q", window, keys=["k"], n=hw.count())]).table
    assert sum(looked_up) == rows.num_rows > 0
