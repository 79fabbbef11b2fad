"""Parquet files, read a row group at a time; row groups without a wanted event are not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.base.arrow import plain_type
from headwater.errors import DataError
from headwater.spark.batch.pruning import Bounds
from headwater.spark.formats.file_range import BATCH_EVENTS, Batches, Format, Passed, Wanted, present, sentence
from headwater.spark.formats.folder_columns import folder_scalars


def _schema(place: str) -> pa.Schema:
    from pyarrow import parquet

    return parquet.read_schema(place, memory_map=True)


def _read(place: str, wanted: Wanted, groups: tuple[int, int] | None) -> Batches:
    from pyarrow import parquet

    with parquet.ParquetFile(place, memory_map=True) as file:
        first, last = groups or (0, file.metadata.num_row_groups)
        said = {} if wanted.pruning is None else folder_scalars(place, wanted.root, wanted.schema)
        said = {name: value for name, value in said.items() if name not in file.schema_arrow.names}
        places = {} if wanted.pruning is None else _places(file)
        for group in range(first, last):
            passed = _passed(RowGroup(file, group, places, said), wanted)
            if passed is not None:
                yield passed
            else:
                yield from _group(file, place, group, present(wanted.columns, file.schema_arrow))


def _group(file: Any, place: str, group: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        # One thread: each task has one core.
        yield from file.iter_batches(BATCH_EVENTS, row_groups=[group], columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        column = file.metadata.row_group(group).column(0)
        byte = column.file_offset or column.dictionary_page_offset or column.data_page_offset
        raise DataError(f"{place}, row group {group}, byte {byte}: {sentence(error)}") from error


def _passed(stretch: RowGroup, wanted: Wanted) -> Passed | None:
    """The row group unread, if no query wants any of its events."""
    pruning = wanted.pruning
    if pruning is None:
        return None
    if stretch.count == 0 or pruning.wants(stretch):
        return None
    if pruning.time is None:
        return Passed(stretch.count, 0, 0)
    # An event with a value of a wrong type is malformed, wanted or not.
    types = {field.name: field.type for field in stretch.file.schema_arrow}
    own = [name for name in wanted.columns if name not in stretch.said]
    if any(types.get(name) != wanted.schema.field(name).type for name in own):
        return None
    span = pruning.span(stretch)
    return None if span is None else Passed(stretch.count, *span)


@dataclass(frozen=True)
class RowGroup:
    """The statistics of one row group; ``said``: columns that the file's folders say."""

    file: Any
    group: int
    places: dict[str, int]
    said: Mapping[str, pa.Scalar]

    @property
    def count(self) -> int:
        return int(self.file.metadata.row_group(self.group).num_rows)

    def bounds(self, column: str) -> Bounds | None:
        if column in self.said:
            value = self.said[column]
            return Bounds(
                pa.array([value, value], value.type) if value.is_valid else None, 0 if value.is_valid else self.count
            )
        place = self.places.get(column)
        if place is None:
            return None
        statistics = self.file.metadata.row_group(self.group).column(place).statistics
        return bounds_of(statistics, self.file.schema_arrow.field(column).type)


def _places(file: Any) -> dict[str, int]:
    """Indices of plain columns by name; nested ones have names with dots, which a plain one may have too."""
    schema = file.schema
    paths = [schema.column(i) for i in range(len(schema))]
    return {each.name: i for i, each in enumerate(paths) if each.path == each.name and each.max_repetition_level == 0}


def bounds_of(statistics: Any, type_: pa.DataType) -> Bounds | None:
    """Statistics as bounds; what is missing, or looks odd, is unknown."""
    if statistics is None:
        return None
    nulls, type_ = int(statistics.null_count) if statistics.has_null_count else None, plain_type(type_)
    ends = None
    if statistics.has_min_max:
        with suppress(pa.ArrowException, ValueError, TypeError, OverflowError, ImportError):
            ends = pa.array([statistics.min, statistics.max], type_)
    # NaN is no bound.
    if ends is not None and (ends.null_count or any(value != value for value in ends.to_pylist())):
        ends = None
    return Bounds(ends, nulls)


def row_groups(place: str) -> list[tuple[int, int]]:
    """The bytes and the rows of each row group of a file."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(place, memory_map=True)
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return [(group.total_byte_size, group.num_rows) for group in groups]


def _parts(place: str) -> list[int]:
    return [rows for _, rows in row_groups(place)]


FORMAT = Format((".parquet", ".pq"), _schema, _read, _parts, has_types=True)
