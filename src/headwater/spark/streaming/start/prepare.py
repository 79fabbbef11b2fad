"""What `hw.stream` checks and chooses before the first batch.

The input that a user's source means; whether sinks work through Spark Connect; where the root runs; settings of Spark.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.base.arrow import plain_array
from headwater.errors import DataError, QueryError
from headwater.language.arguments import check_ahead, check_disorder, check_real_time
from headwater.language.homes import Home
from headwater.language.places import local_path, table_hint
from headwater.language.query import Query
from headwater.language.renames import Renaming
from headwater.language.schemas import check_unit_of
from headwater.language.time_columns import time_column
from headwater.spark.batch.root import ROOTS_MAX
from headwater.spark.formats import Wanted
from headwater.spark.formats.paths import split_pattern
from headwater.spark.streaming.checkpoint import About, StreamCheckpoint
from headwater.spark.streaming.errors import CheckpointError
from headwater.spark.streaming.inputs.input import Input, LogInput, stores_arrivals
from headwater.spark.streaming.sinks import CallableSink, ConsoleSink, FolderSink, MemorySink, SinkPerQuery
from headwater.spark.streaming.start.query_changes import check_changes, check_homes, running_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What reads places that are no folders of this machine.
ELSEWHERE = (
    "give a folder that this machine and all workers see, KafkaInput(...), or take hw.aggregate(spark.readStream...), which "
    "reads wherever Spark does"
)
_NAMES: dict[type[Any], str] = {MemorySink: "'memory'", ConsoleSink: "'console'", CallableSink: "a function"}
_THERE = "through Spark Connect batches run at the server"
_FORM = "give a folder, a LogSink, a KafkaSink, hw.foreach_batch, hw.to_table or hw.postgres"
#: How many events are looked at, and from how many keys among them on there are too many for the driver.
LOOK_EVENTS = 200_000
MANY_KEYS = 50_000
#: Spark's default writes its logs through Hadoop's FileContext, which for files of this machine starts a program for each file
#: and each checksum, to set their permissions: more than a third of a small batch. This one writes the same files without.
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_CHEAP_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: The class is Spark's own business, and has moved before: elsewhere the default does, only slower.
_VERSIONS = ("4.3.",)


def renamed_input(source: Any, checkpoint: StreamCheckpoint, rename: object, *, time: str, **options: Any) -> Input:
    """`open_input` with columns under other names, of which ``time`` is one."""
    renaming = Renaming.of(rename)
    opened = open_input(source, checkpoint, time=renaming.stored_time(time), **options)
    if not renaming:
        return opened
    from headwater.spark.streaming.inputs.renamed import RenamedInput

    return RenamedInput(opened, renaming)


def open_input(
    source: Any, checkpoint: StreamCheckpoint, *, pace: str, time: str, unit: str, **of_folder: Any
) -> Input:
    """A folder, a segment log, generators, or an input that is one already; ``of_folder``: what a `FolderInput` is made of."""
    if hasattr(source, "extents"):
        given: Input = source
        return given
    if hasattr(source, "batches") or isinstance(source, list | tuple):
        from headwater.spark.streaming.inputs.generator import GeneratorInput

        listed = [source] if hasattr(source, "batches") else list(source)
        # The pace of generated events goes by the times they have, also where their arrival is what counts.
        by = "time" if time_column(time).reading == "arrival" else time
        return GeneratorInput(listed, pace=pace, time=by, unit=unit, seen=checkpoint.path / "generated")
    if not isinstance(source, str | os.PathLike):
        raise DataError(f"source is {source!r}: give a folder, a segment log, generators, or KafkaInput(...)")
    path, pattern = split_pattern(local_path("source", source, ELSEWHERE))
    if path.is_file():
        raise DataError(
            f"{path}: this is a file; a stream reads a folder, here {path.parent}, and goes on as files come to it; "
            "hw.read(spark, file, queries) reads one file"
        )
    if not path.is_dir():
        hint = table_hint(source, "spark.readStream.table")
        raise DataError(
            f"{path}: there is no such folder; a stream reads a folder, and goes on as files come to it{hint}"
        )
    if pattern is None and (path / "log.json").is_file() and of_folder["format"] in (None, "log"):
        return LogInput(path, of_folder["schema"])
    from headwater.spark.streaming.inputs.folder import FolderInput

    below = None if pattern is None else pattern.text
    return FolderInput(path, checkpoint.path / "seen", pattern=below, **of_folder)


def stream_settings(
    about: About | None,
    opened: Input,
    *,
    time: str,
    unit: str,
    disorder: object,
    strict: bool,
    idle: object,
    ahead_max: object,
) -> dict[str, Any]:
    """What a stream does with times and with malformed events, checked against the columns; ``about``: if it has begun."""
    if about is None:
        check_unit_of("disorder", disorder, opened.schema, time)
    return {
        "time": time,
        "unit": unit,
        "disorder": check_disorder(0 if disorder is None else disorder, unit),
        "strict": strict,
        "idle_ns": None if idle is None else check_real_time("idle", idle),
        "ahead_max": checked_ahead(ahead_max, about, opened, time, unit),
    }


def check_goes_on(
    checkpoint: StreamCheckpoint,
    about: About,
    opened: Input,
    settings: Mapping[str, Any],
    home: Home,
    asked: Sequence[Query] | None,
) -> None:
    """Refuse to go on with a stream that would not be the same; ``asked``: the queries that are to run from now on, if told."""
    place = checkpoint.path.parent
    check_same(about, opened, settings, place)
    check_same_home(about, home, place)
    check_homes(running_queries(checkpoint).values() if asked is None else asked, checkpoint)
    if asked is not None:
        check_changes(checkpoint, about, asked)


def check_same(about: About, given: Input, settings: Mapping[str, Any], place: Path) -> None:
    """Refuse to go on with another source, or with times that mean something else."""
    was, now = dict(about.input.get("rename", {})), dict(given.to_data().get("rename", {}))
    if was != now:
        raise CheckpointError(f"{place}: rename is {now!r}, but was {was!r} when the stream began; it cannot change")
    if about.kind != given.kind or _lasting(about.input) != _lasting(given.to_data()):
        raise CheckpointError(f"{place}: this checkpoint is of a stream over another source; give another folder")
    if isinstance(given, LogInput):
        LogInput.from_data(
            about.input
        ).extents()  # Another log in the place of the first is refused before anything runs.
    for name, value in settings.items():
        # Releases that knew no bound for times ahead had none.
        before = about.settings.get(name)
        if before != value:
            raise CheckpointError(
                f"{place}: {name} is {value!r}, but was {before!r} when the stream began; it cannot change"
            )


def check_same_home(about: About, home: Home, place: Path) -> None:
    """Refuse to move sources: where one is at home was said when it was born."""
    if about.home != home:
        raise CheckpointError(
            f"{place}: home is {home!r}, but was {about.home!r} when the stream began; it cannot change"
        )


def checked_ahead(ahead_max: object, about: About | None, opened: Input, time: str, unit: str) -> int | None:
    """How far times may be ahead of arrivals, in ticks; where nothing is said, what was said when the stream began."""
    if time_column(time).reading == "arrival" and _forgets_arrivals(opened.kind, opened.to_data()):
        raise DataError(
            f"time is {time}: rows of a log of version 1 do not tell when they arrived; name a column that tells their times"
        )
    if about is not None and ahead_max == "auto":
        kept: int | None = about.settings.get("ahead_max")
        return kept
    if time_column(time).name not in opened.schema.names:
        return None  # the queries are refused for it
    return check_ahead(ahead_max, time, opened.schema, unit)


def _forgets_arrivals(kind: str, data: Mapping[str, Any]) -> bool:
    """Whether an input is a log whose rows are of before arrivals were stored."""
    if "rename" in data:
        return _forgets_arrivals(data["kind"], data["input"])
    return kind == "log" and not stores_arrivals(kind, data)


def _lasting(data: Mapping[str, Any]) -> dict[str, Any]:
    """The description of an input, without when it began."""
    kept = {name: value for name, value in data.items() if name not in ("began_ns", "began", "schema")}
    return kept | ({"input": _lasting(data["input"])} if "rename" in data else {})


def check_remote(
    sinks: Mapping[str, Any], metrics_port: int | None, progress: bool | None, page: object = None
) -> None:
    """Refuse sinks, metrics and pages that cannot work through Spark Connect: they would be lost without a word."""
    from pyspark import cloudpickle

    for what, sink in _each(sinks):
        if isinstance(sink, FolderSink) and sink.every_ns:
            raise DataError(
                f"{what} gathers rows: {_THERE}, and stopping the stream here would not write the last; leave every out"
            )
        if type(sink) in _NAMES:
            raise DataError(
                f"{what} is {_NAMES[type(sink)]}: {_THERE}, and nothing of them would be seen here; {_FORM}"
            )
        try:
            cloudpickle.dumps(sink)  # type: ignore[no-untyped-call]
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise DataError(f"{what} is {sink!r}: {_THERE}, and it cannot travel there ({error}); {_FORM}") from None
    for name, value in (("metrics_port", metrics_port), ("progress", progress or None), ("page", page)):
        if value is not None:
            raise DataError(
                f"{name} is {value!r}: {_THERE}, and only stream.progress tells of them here; leave {name} out"
            )


def _each(sinks: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for what, sink in sinks.items():
        if isinstance(sink, SinkPerQuery):
            yield from ((f"{what}[{name!r}]", sink[name]) for name in sink.names)
        else:
            yield what, sink


def check_sinks(sink: Any, asked: Sequence[Query] | None, checkpoint: StreamCheckpoint) -> None:
    """Refuse sinks by query that are for no query, or leave one out: its rows would have no place."""
    if not isinstance(sink, SinkPerQuery):
        return
    # One that is to end now may have rows in the batch that ends it.
    running = running_queries(checkpoint) if checkpoint.about() is not None else {}
    names = {**running, **{query.name: query for query in asked or ()}}
    sink.check_known(names)
    sink.check_taken(names)


def choose_roots(opened: Input, queries: Sequence[Query], cores: int, wanted: str) -> tuple[int, str]:
    """How many roots, and why."""
    if wanted not in ("auto", "driver", "reducers"):
        raise QueryError(f"root is {wanted!r}: give 'auto', 'driver' or 'reducers'")
    roots = max(2, min(cores, ROOTS_MAX))
    keyed = [query for query in queries if query.keys]
    if wanted == "reducers":
        if not keyed:
            raise QueryError("root is 'reducers', but no query has keys that they could share; give 'driver'")
        return roots, "asked for"
    if wanted == "driver":
        return 1, "asked for"
    if not keyed:
        return 1, "no query has keys to share"
    count, looked = _key_count(opened, keyed)
    if count >= MANY_KEYS:
        return roots, f"{count} keys among the first {looked} events: roots in tasks share them"
    return 1, f"{count} keys among the first {looked} events: the driver answers soonest"


def _key_count(opened: Input, queries: Sequence[Query]) -> tuple[int, int]:
    """The most keys that a query has among the first events of all sources, and how many events were looked at."""
    names = sorted({name for query in queries for name in query.keys})
    tables = list(_looks(opened, names))
    if not tables:
        return 0, 0
    table = pa.Table.from_batches(tables)
    counts = [len(table.group_by(list(query.keys)).aggregate([])) for query in queries]
    return max(counts), len(table)


def _looks(opened: Input, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    extents = {source: extent for source, extent in opened.extents().items() if extent.end > 0}
    wanted = Wanted(names, opened.schema)
    for source, extent in extents.items():
        end = min(extent.end, LOOK_EVENTS // len(extents) + 1)
        for stretch in opened.stretches(source, 0, end):
            for batch in opened.read(stretch, wanted):
                if isinstance(batch, pa.RecordBatch) and set(names) <= set(batch.schema.names):
                    plain = [plain_array(batch.column(name)) for name in names]
                    yield pa.RecordBatch.from_arrays(plain, names=list(names))


def as_spark_path(place: Path) -> str:
    """A local folder as Spark has to be told of it: where its default is another file system, a bare path would lie there.

    Not `as_uri`: Spark takes what stands behind the scheme as it is.

    >>> as_spark_path(Path("/data/my stream"))
    'file:///data/my stream'
    """
    return f"file://{place}"


@contextmanager
def cheap_batches(spark: SparkSession) -> Iterator[None]:
    """A stream that is started in this ``with`` keeps the setting; what a user has set stays as it is."""
    is_ours = spark.version.startswith(_VERSIONS) and spark.conf.get(_FILE_MANAGER, None) is None
    if is_ours:
        spark.conf.set(_FILE_MANAGER, _CHEAP_MANAGER)
    try:
        yield
    finally:
        if is_ours:
            spark.conf.unset(_FILE_MANAGER)
