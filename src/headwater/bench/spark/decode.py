"""What reading costs at the least: pyarrow decodes the columns of Parquet files in two processes and touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

COLUMNS = ["time", "key", "value"]
BATCH_EVENTS = 1 << 16
#: Counts the rows of files by decoding them.
Decode = Callable[[Iterable[str]], int]


@contextmanager
def decoders() -> Iterator[Decode]:
    """Two processes that decode files, each half of their row groups; once they have, they have loaded pyarrow."""
    context = get_context("spawn")
    # One pool each: a pool of two may give both halves to one process.
    with ProcessPoolExecutor(1, context) as one, ProcessPoolExecutor(1, context) as other:

        def decode(files: Iterable[str]) -> int:
            groups = row_groups(files)
            half = -(-len(groups) // 2)
            halves = one.submit(decoded, groups[:half]), other.submit(decoded, groups[half:])
            return sum(future.result() for future in halves)

        yield decode


def row_groups(files: Iterable[str]) -> list[tuple[str, int]]:
    """Every row group of every file."""
    import pyarrow.parquet as pq

    return [(path, group) for path in files for group in range(pq.read_metadata(path).num_row_groups)]


def decoded(groups: Iterable[tuple[str, int]]) -> int:
    """Decode these row groups on this thread; returns the number of rows."""
    import pyarrow.parquet as pq

    wanted: dict[str, list[int]] = {}
    for path, group in groups:
        wanted.setdefault(path, []).append(group)
    rows = 0
    for path, numbers in wanted.items():
        with pq.ParquetFile(path, memory_map=True) as file:
            for batch in file.iter_batches(BATCH_EVENTS, numbers, COLUMNS, use_threads=False):
                rows += batch.num_rows
    return rows
