"""What reading costs at the least: pyarrow decodes the columns of Parquet files in two processes and touches nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from types import TracebackType

PROCESSES = 2
COLUMNS = ["time", "key", "value"]
BATCH_EVENTS = 1 << 16


class Decoders:
    """Processes that are started and have loaded pyarrow before anything is timed."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Decoders:
        context = get_context("spawn")
        self._processes = [
            self._stack.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(PROCESSES)
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def rows(self, files: Iterable[str]) -> int:
        """How many rows the files hold; each process decodes half of their row groups."""
        groups = row_groups(files)
        half = -(-len(groups) // PROCESSES)
        shares = [groups[first : first + half] for first in range(0, len(groups), half)]
        return sum(
            future.result() for future in [p.submit(decoded, share) for p, share in zip(self._processes, shares)]
        )

    def seconds(self, files: Iterable[str]) -> float:
        """How long that takes."""
        begin = time.perf_counter()
        self.rows(files)
        return time.perf_counter() - begin


def row_groups(files: Iterable[str]) -> list[tuple[str, int]]:
    """Every row group of every file."""
    import pyarrow.parquet as pq

    return [(path, group) for path in files for group in range(pq.read_metadata(path).num_row_groups)]


def decoded(groups: Iterable[tuple[str, int]]) -> int:
    """Decode these row groups on this thread; returns how many rows there were."""
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
