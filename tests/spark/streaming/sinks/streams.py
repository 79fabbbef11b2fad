"""A stream as its sinks see it, without Spark and without windows: lives, batches, and which of them are done."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headwater.spark.streaming.sinks.gathered import GatheredRows, Gathering
from headwater.spark.streaming.sinks.timeline import Claimant, Life


def table(*values: int, column: str = "n") -> pa.Table:
    return pa.table({column: pa.array(values, pa.int64())})


@dataclass
class History:
    """The checkpoint of a stream. A copy of it is a backup."""

    id: str = "s"
    lives: tuple[Life, ...] = ()
    done: int = -1
    row_counts: dict[int, int] = field(default_factory=dict)
    #: Where rows wait, and what the directives say of them, by batch.
    waiting: Path | None = None
    said: dict[int, Gathering | None] = field(default_factory=dict)

    def start(self, life: str) -> Claimant:
        """A new life of the stream, as its sinks meet it."""
        self.lives = (*self.lives, Life(self.done + 1, life))
        gathered = None if self.waiting is None else GatheredRows(self.waiting, len(self.lives))
        return Claimant(self.id, self.lives, dict(self.row_counts), gathered)

    def run(self, write: Callable[[int, pa.Table], object], *batches: pa.Table) -> None:
        """The next batches, from the sink to the directive."""
        for rows in batches:
            write(self.done + 1, rows)
            self.finish(rows)

    def finish(self, rows: pa.Table, said: Gathering | None = None) -> None:
        self.done += 1
        self.row_counts[self.done] = len(rows)
        self.said[self.done] = said
