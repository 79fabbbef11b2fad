"""What a job reads: the source of its file as `hw.stream` takes it, and opened for a look or for a run in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa

from headwater.errors import DataError
from headwater.job.file.description import (
    ArrivalTime,
    ColumnTime,
    EpochTime,
    FilesSource,
    FolderSource,
    GeneratorSource,
    IsoTime,
    Job,
    KafkaSource,
    SegmentLogSource,
    Source,
)
from headwater.job.file.job_file import JobFile
from headwater.job.file.variables import by_name
from headwater.job.files_input import FilesInput
from headwater.language.time_columns import arrival, epoch, iso
from headwater.language.user_code import load_path
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.inputs.input import Input
from headwater.spark.streaming.start.prepare import renamed_input


class JobSource(NamedTuple):
    """The ``source`` of `hw.stream`, and what else it is told of it."""

    source: Any
    options: dict[str, Any]


def stream_source(file: JobFile) -> JobSource:
    """What a job reads; brokers are asked, and lists of files are looked through."""
    given = _described(file.job.source, file)
    options = {"format": None, "sources": "folder", "schema": None, "types": None, "pace": "fast"}
    match given:
        case FolderSource(path=path):
            own = {
                "format": given.format,
                "sources": given.sources,
                "schema": _schema(given.schema),
                "types": given.types,
            }
            return JobSource(file.below(path), options | own)
        case FilesSource(paths=paths):
            listed = [file.below(path) for path in paths]
            return JobSource(FilesInput(listed, format=given.format, types=given.types), options)
        case SegmentLogSource(path=path):
            return JobSource(
                _log_folder(file.below(path)), options | {"format": "log", "schema": _schema(given.schema)}
            )
        case KafkaSource():
            return JobSource(_kafka(given), options)
        case GeneratorSource():
            return JobSource(_generators(given), options | {"pace": given.pace})


def open_source(file: JobFile, kept: Path) -> Input:
    """The source, ready to be read; ``kept``: a folder for what it has to remember."""
    source, options = stream_source(file)
    time, unit = time_arguments(file.job)
    given = {"time": time, "unit": unit, "strict": file.job.strict, **options}
    return renamed_input(source, StreamCheckpoint(kept), file.job.rename or None, **given)


def time_arguments(job: Job) -> tuple[str, str]:
    """The arguments ``time`` and ``unit`` of every door."""
    match job.time:
        case ColumnTime(column=column, unit=unit):
            return column, unit
        case EpochTime(column=column, unit=unit):
            return epoch(column, unit), "us"
        case IsoTime(column=column):
            return iso(column), "us"
        case ArrivalTime():
            return arrival(), "us"
    return job.time, "us"


def ahead_argument(job: Job) -> object:
    """The argument ``ahead_max``: what a job leaves out is decided by the type of the times."""
    return "auto" if job.ahead_max is None else None if job.ahead_max == "any" else job.ahead_max


def _described(
    source: Source, file: JobFile
) -> FolderSource | FilesSource | SegmentLogSource | KafkaSource | GeneratorSource:
    """A source that was given as text: a folder, a file, a pattern, or kafka://host:9092/topic."""
    if not isinstance(source, str):
        return source
    if source.startswith("kafka://"):
        url = urlsplit(source)
        if not url.netloc or not url.path.strip("/"):
            raise DataError(f"source is {source!r}: write kafka://host:9092/topic")
        return KafkaSource(servers=url.netloc, topics=url.path.strip("/"))
    return FilesSource(paths=[source]) if Path(file.below(source)).is_file() else FolderSource(path=source)


def _schema(names: Mapping[str, str] | None) -> pa.Schema | None:
    return None if names is None else pa.schema([(name, pa.type_for_alias(type_)) for name, type_ in names.items()])


def _log_folder(path: str) -> str:
    if "://" not in path and not Path(path, "log.json").is_file():
        raise DataError(f"{path}: there is no segment log; name the folder that has its log.json")
    return path


def _kafka(given: KafkaSource) -> Any:
    from headwater.spark.streaming.kafka.input import KafkaInput

    named = {name: getattr(given, name) for name in ("begin", "key", "timestamp", "on_data_loss")}
    return KafkaInput(given.servers, given.topics, schema=_schema(given.schema), config=by_name(given.options), **named)


def _generators(given: GeneratorSource) -> Any:
    """As many generators as asked for, which share what one would make."""
    make = load_path(given.generator)
    try:
        made = make(**given.fields)
        return made.sources(given.count) if given.count > 1 else [made]
    except (TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{given.generator} cannot be made of {given.fields}: {error}") from error
