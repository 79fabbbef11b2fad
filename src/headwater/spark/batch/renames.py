"""What is read under other names than it is stored: asked for by the old ones, given by the new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from headwater.language.renames import Renaming
from headwater.spark.formats.file_range import Wanted

T = TypeVar("T")


def stored_wanted(wanted: Wanted, renaming: Renaming) -> Wanted:
    """What is wanted, by the names that it has where it is stored."""
    if not renaming:
        return wanted
    schema = pa.schema([field.with_name(renaming.stored(field.name)) for field in wanted.schema])
    pruning = None if wanted.pruning is None else replace(wanted.pruning, renaming=renaming)
    return replace(wanted, columns=[renaming.stored(name) for name in wanted.columns], schema=schema, pruning=pruning)


def renamed_batches(found: Iterable[T], renaming: Renaming) -> Iterator[T]:
    """Batches under the new names; whatever else is told stays as it is."""
    for told in found:
        yield renaming.batch(told) if isinstance(told, pa.RecordBatch) else told
