"""Rows whose contents follow from their offsets, so that a reader can tell what it should have read."""

import pyarrow as pa


def rows(offset: int, count: int) -> pa.RecordBatch:
    """The rows [offset, offset + count) of the one stream that the tests append."""
    numbers = range(offset, offset + count)
    columns = {
        "time": pa.array([10 * n + (-25 if n % 7 == 0 else 0) for n in numbers], pa.int64()),
        "key": pa.array([None if n % 5 == 0 else f"sensor-{n % 3}" for n in numbers], pa.string()).dictionary_encode(),
        "value": pa.array([float("nan") if n % 11 == 0 else n / 4 for n in numbers], pa.float64()),
        "note": pa.array(["x" * (n % 13) for n in numbers], pa.string()),
    }
    return pa.record_batch(columns)


def plain(batch: pa.RecordBatch) -> str:
    """The values alone; by repr, for which NaN is equal to itself."""
    return repr(batch.to_pylist())


def check_prefix(read: list, start: int, end: int) -> None:
    """These batches are exactly the rows [start, end): no gap, nothing twice, nothing changed."""
    at = start
    for stored in read:
        assert stored.offset == at
        assert plain(stored.batch) == plain(rows(at, stored.batch.num_rows))
        at += stored.batch.num_rows
    assert at == end
