"""What the live page of a stream begins with, as its checkpoint knows it."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.language.query import Query
from headwater.language.time_columns import time_column
from headwater.page.settings import ListeningPage
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.watch.page_board import PageStart, event_bytes


def page_start(
    listening: ListeningPage, checkpoint: StreamCheckpoint, queries: Iterable[Query], start: int
) -> PageStart:
    """``queries``: those that are answered from now on; ``start``: which start of the stream this is, the first being 1."""
    about = checkpoint.begun()
    columns = {time_column(about.settings["time"]).name}.union(*(query.columns() for query in queries))
    batch = checkpoint.last_done()
    directive = checkpoint.directive(batch) if batch >= 0 else None
    before = 0 if directive is None else directive["status"].get("events", 0)
    began = "started" if batch < 0 else f"started again (start {start}), goes on after batch {batch:,}"
    return PageStart(listening, event_bytes(about.schema, columns), before, began)
