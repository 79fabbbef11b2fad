"""Where a job's rows go: the sinks that its file describes, built before anything runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.errors import DataError, HeadwaterError
from headwater.job.file.description import ToConsole, ToFolder, ToKafka, ToLog, ToPostgres, ToTable
from headwater.job.file.job_file import JobFile
from headwater.job.file.problems import JobError, JobProblem
from headwater.job.file.variables import by_name, filled
from headwater.local.display import text_table
from headwater.spark.streaming.sinks import CallableSink, FolderSink, LogSink

#: What a run leaves in a folder: files of rows, and the mark of the run.
_OWN = re.compile(r"batch-\d{12,}(-\d{12,})?\.parquet|_headwater\..+")


def build_sinks(file: JobFile) -> dict[str, Any]:
    """A sink for each query, and one for what is aside if the file has one; folders that are to be replaced are emptied."""
    built, problems = {}, []
    for name, target in file.job.sinks.items():
        try:
            built[name] = _built(file, name, target)
        except (HeadwaterError, OSError) as error:
            problems.append(file.problem(("sinks", name), error))
    if problems:
        raise JobError(problems)
    return built


def sink_problems(file: JobFile) -> Iterator[JobProblem]:
    """What keeps rows from going where the file says, as far as it can be seen without touching anything."""
    for name, target in file.job.sinks.items():
        try:
            match target:
                case ToTable():
                    _door("to_table")
                case ToPostgres():
                    _door("postgres")
                case ToFolder(path=path):
                    _check_folder(Path(file.below(path)), file.job.checkpoint is not None, target.replace)
                case str() if target != "console":
                    _check_folder(Path(file.below(target)), file.job.checkpoint is not None, False)
        except (HeadwaterError, OSError) as error:
            yield file.problem(("sinks", name), error)


def _check_folder(folder: Path, has_checkpoint: bool, is_replaced: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; name a folder")
    found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    foreign = [name for name in found if not _OWN.fullmatch(name)]
    if is_replaced and foreign:
        raise DataError(
            f"{folder} holds {foreign[0]!r}, which no run has written, so it is not replaced; name another folder"
        )
    if not is_replaced and not has_checkpoint and len(found) > len(foreign):
        raise DataError(
            f"{folder} is of an earlier run, and a job without a checkpoint begins anew; empty it, write "
            "{type: folder, path: ..., replace: true}, or give the job a checkpoint"
        )


def _built(file: JobFile, name: str, target: Any) -> Any:
    match target:
        case "console" | ToConsole():
            return CallableSink(lambda rows, batch: _print(name, rows))
        case str():
            return _folder(Path(file.below(target)), ToFolder(path=target), file.job.checkpoint is not None)
        case ToFolder(path=path):
            return _folder(Path(file.below(path)), target, file.job.checkpoint is not None)
        case ToLog(path=path):
            return LogSink(file.below(path))
        case ToKafka():
            from headwater.spark.streaming.kafka.sink import KafkaSink

            given: dict[str, Any] = {"transactions": target.transactions, "shared": target.shared}
            return KafkaSink(target.servers, target.topic, config=by_name(target.options), **given)
        case ToTable(name=table, mode=mode):
            return _door("to_table")(table, mode=mode)
        case ToPostgres(table=table, mode=mode):
            return _door("postgres")(filled(target.dsn), table, mode=mode)
    raise AssertionError(f"no sink: {target!r}")


def _door(name: str) -> Any:
    """A sink that not every build of headwater has."""
    import headwater

    try:
        return getattr(headwater, name)
    except AttributeError:
        raise DataError(f"this build of headwater has no hw.{name}; upgrade it, or write to a folder") from None


def _folder(path: Path, target: ToFolder, has_checkpoint: bool) -> FolderSink:
    _check_folder(path, has_checkpoint, target.replace)
    if target.replace and path.is_dir():
        for own in sorted(path.iterdir()):
            own.unlink()
    return FolderSink(path, every=target.every)


def _print(name: str, rows: pa.Table) -> None:
    if len(rows):
        print(f"{name}: {len(rows):,} rows\n{text_table(rows)}", file=sys.stdout, flush=True)
