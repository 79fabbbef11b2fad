"""A stream in the loop without Spark needs no more as it gets older; at a size at which time and memory say nothing."""

import pytest

from headwater.bench.stream.growth import FILES_KEPT, sampled
from headwater.spark.streaming import host

pytestmark = pytest.mark.usefixtures("no_sync")


def test_offsets_and_checkpoints_are_as_large_after_many_files_as_after_some(tmp_path, monkeypatch):
    pytest.importorskip("psutil")
    monkeypatch.setattr(host, "SNAPSHOT_EVERY", 5)
    samples = list(sampled(tmp_path / "stream", 240))
    assert len([*(tmp_path / "stream" / "in").iterdir()]) == FILES_KEPT
    # Between two snapshots a few files gather, and few offsets are of one length.
    early, late = (max(sample.offset_bytes for sample in some) for some in (samples[60:120], samples[-60:]))
    assert late <= 1.1 * early
    early, late = (max(sample.checkpoint_bytes for sample in some) for some in (samples[60:120], samples[-60:]))
    assert late <= 1.3 * early
