"""Why events are in no result, counted by reason, with the last of each as an example."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.page.board import Reason

#: Reasons may name values, of which there can be any number: beyond so many they are counted together.
REASONS_MAX = 40
OTHERS = "other reasons"
TEXT_MAX = 160


class Reasons:
    """Counts events that were set aside. An event that is too late for three queries counts three times, as its fates do.

    >>> reasons = Reasons()
    >>> row = {"reason": "time is null", "source": "a", "offset": 7, "event": "{}"}
    >>> reasons.take([pa.Table.from_pylist([row, {**row, "offset": 9}])])
    >>> reasons.found()
    (Reason(reason='time is null', count=2, source='a', offset=9, event='{}'),)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, Reason] = {}

    def take(self, tables: Iterable[pa.Table]) -> None:
        """Tables of the side output, as the root puts them out."""
        for table in tables:
            if len(table):
                self._count(table)

    def _count(self, table: pa.Table) -> None:
        names = table.column("reason").combine_chunks().dictionary_encode()
        codes = np.asarray(names.indices)
        counts = np.bincount(codes, minlength=len(names.dictionary)).tolist()
        last = np.zeros(len(counts), np.int64)
        last[codes] = np.arange(len(codes))  # of a number that is there twice the last counts
        examples = table.select(["source", "offset", "event"]).take(pa.array(last)).to_pylist()
        with self._lock:
            for reason, count, example in zip(map(_clipped, names.dictionary.to_pylist()), counts, examples):
                self._add(reason, count, example)

    def _add(self, reason: str, count: int, example: Mapping[str, Any]) -> None:
        if reason not in self._found and len(self._found) >= REASONS_MAX:
            reason = OTHERS
        before = self._found[reason].count if reason in self._found else 0
        place = example["source"] or "", example["offset"]
        self._found[reason] = Reason(reason, before + count, *place, _clipped(example["event"]))

    def found(self) -> tuple[Reason, ...]:
        """The most frequent first."""
        with self._lock:
            return tuple(sorted(self._found.values(), key=lambda each: -each.count))


def _clipped(text: str | None) -> str:
    whole = text or ""
    return whole if len(whole) <= TEXT_MAX else whole[: TEXT_MAX - 1] + "…"
