"""What a run has come to, for its end: rows, late and malformed events, and the bytes that did not travel."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.spark.streaming.watch.status import StreamStatus, scaled


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run at its end. ``raw_bytes``: of the events that were read, as Arrow, in the columns that queries read.

    ``sent_bytes``: what went from the readers of events to where windows are put together. Both None where nobody has measured.
    ``is_estimate``: the raw bytes are those of the first events, times all.
    """

    status: StreamStatus
    seconds: float
    raw_bytes: int | None = None
    sent_bytes: int | None = None
    sent: str = "partials"
    is_estimate: bool = False

    def text(self) -> str:
        """
        >>> from headwater.spark.streaming.watch.status import QueryStatus
        >>> queries = {"load": QueryStatus(9, {"member": 6, "late": 2, "malformed": 1}, rows=4)}
        >>> print(RunSummary(StreamStatus(events=9, queries=queries), 2.0, 5_000, 250, "result rows").text())
        9 events in 2.0 s, 4 rows
        query  rows  late  malformed
        load      4     2          1
        4.8 kB of 5.0 kB of events did not travel: 250 B of result rows left the process instead, 5.0 %
        """
        status = self.status
        total = sum(query.rows for query in status.queries.values())
        head = f"{status.events:,} events in {self.seconds:.1f} s, {total:,} rows"
        return "\n".join([head, *_table(status), *([] if not self.raw_bytes else [self._bytes()])])

    def _bytes(self) -> str:
        raw, sent = self.raw_bytes or 0, self.sent_bytes or 0
        about = "about " if self.is_estimate else ""
        where = "left the process" if self.sent == "result rows" else "travelled"
        saved = f"{about}{_size(max(raw - sent, 0))} of {_size(raw)} of events did not travel"
        return f"{saved}: {_size(sent)} of {self.sent} {where} instead, {sent / raw:.1%}".replace("%", " %")


def _table(status: StreamStatus) -> list[str]:
    cells = [("query", "rows", "late", "malformed")]
    for name, query in status.queries.items():
        late = query.fates.get("late", 0) + query.fates.get("dropped", 0)
        cells.append((name, f"{query.rows:,}", f"{late:,}", f"{query.fates.get('malformed', 0):,}"))
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in (1, 2, 3))]).rstrip() for row in cells
    ]


def _size(nbytes: int) -> str:
    return f"{scaled(nbytes)}B"
