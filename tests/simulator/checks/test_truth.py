"""The truth of a run: whom the group waits for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import headwater as hw
from headwater.simulator.checks.truth import Truth
from headwater.simulator.workloads.streams import SourceLog
from headwater.simulator.workloads.workload import Workload


def log_of(name: str, time: int, ended_ns: int | None) -> SourceLog:
    return SourceLog(name, "", pa.record_batch({"time": [time]}), np.array([0]), ended_ns=ended_ns)


@pytest.mark.parametrize("will_end", [True, False])
def test_a_source_is_waited_for_as_soon_as_another_may_pass_it(will_end: bool) -> None:
    logs = (log_of("silent", 14, None), log_of("other", 12, 5 if will_end else None))
    queries = (hw.query("all", hw.tumbling(10), n=hw.count()),)
    truth = Truth(Workload(queries, {"leaf": logs}, disorder=0), {})
    for log in logs:
        truth.note("decided", {"what": "joined", "source": log.source, "offset": 0, "time": truth.stream.watermark})
    truth.note("accepted", {"sources": {"silent": [0, 1, 14], "other": [0, 1, 12]}, "watermark": 12})
    # The one that is furthest ahead holds nobody up, until the other has said that it ends.
    assert truth.held_up_by == ({"silent"} if will_end else {"other"})
