"""What may stand in a job file, as structs: checks, the JSON Schema and the objects that run are all made of these.

The description of a field is what would be right there: it ends the sentence about a wrong value, and editors show it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct, field

#: The version of job files that this release reads.
VERSION: Final = 1
#: The only key of `sinks` that is no query.
ASIDE: Final = "aside"

#: One or more numbers with units; which units there are is checked when it is read.
_DURATION_TEXT: Final = r"^\s*(\d+(\.\d+)?\s*[A-Za-zµμ]+\s*)+$"


def _text(form: str, *, is_secret: bool = False, check: str | None = None, **limits: Any) -> Meta:
    extra = {"secret": is_secret, "check": check}
    return Meta(description=form, min_length=1, extra=extra, **limits)


_CLOCK_TIME = _text("write a duration with its unit, such as '30 s'", check="clock time", pattern=_DURATION_TEXT)
_PORT = Meta(description="give a port between 0 (any that is free) and 65535", ge=0, le=65535)
_HOST = _text("give the address to listen at, such as 127.0.0.1 (this machine only) or 0.0.0.0 (all networks)")
_COUNT = Meta(description="give a whole number of at least 1", ge=1)
_YES = Meta(description="write true or false")
_COLUMN = _text("name the column that tells the time")
_UNIT = Meta(description="give one of s, ms, us, ns")

Unit: TypeAlias = Annotated[Literal["s", "ms", "us", "ns"], _UNIT]
YesNo: TypeAlias = Annotated[bool, _YES]
#: A length of event time; plain numbers are ticks of integer times.
EventTime: TypeAlias = Annotated[
    Annotated[str, Meta(pattern=_DURATION_TEXT)] | Annotated[int, Meta(ge=0)],
    Meta(description="write a duration such as '10 s', or a whole number of ticks", extra={"check": "event time"}),
]
Names: TypeAlias = Annotated[dict[str, str], Meta(description="give names by names, such as {node: device}")]
Types: TypeAlias = Annotated[
    dict[str, str],
    Meta(description="give Arrow's types by the names of columns, such as {time: int64}", extra={"check": "types"}),
]
KafkaOptions: TypeAlias = Annotated[
    dict[str, Annotated[str | int | float | bool, Meta(description="give text or a number", extra={"secret": True})]],
    Meta(description="give settings of the Kafka client by name, such as {security.protocol: SASL_SSL}"),
]
FileFormat: TypeAlias = Annotated[
    Literal["parquet", "arrow", "csv", "json"], Meta(description="give one of parquet, arrow, csv, json")
]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """A part of a job file, known by its fields."""


# --- what is read ---


class FolderSource(Section, tag="folder", frozen=True):
    """A folder to which files come, or a pattern of such files."""

    path: Annotated[str, _text("name a folder, or a pattern such as events/day=*/*.csv")]
    sources: Annotated[
        str, _text("give folder (the files of one folder are one source), file (each is one), or module:function")
    ] = "folder"
    format: FileFormat | None = None
    schema: Types | None = None
    types: Types | None = None


class FilesSource(Section, tag="files", frozen=True):
    """Files that are there, each a source of its own: no others will come."""

    paths: Annotated[
        list[Annotated[str, _text("name a file, or a pattern such as events/*.parquet")]],
        Meta(description="list files, or patterns such as events/*.parquet", min_length=1),
    ]
    format: FileFormat | None = None
    types: Types | None = None


class SegmentLogSource(Section, tag="log", frozen=True):
    """A segment log."""

    path: Annotated[str, _text("name the folder of a segment log")]
    schema: Types | None = None


class KafkaSource(Section, tag="kafka", frozen=True):
    """Topics of Kafka, each message a JSON object."""

    servers: Annotated[str, _text("give brokers as host:port, several with commas between")]
    topics: Annotated[
        str | Annotated[list[str], Meta(min_length=1)], Meta(description="name a topic, or a list of topics")
    ]
    schema: Types | None = None
    begin: Annotated[Literal["earliest", "latest"], Meta(description="give earliest or latest")] = "earliest"
    key: YesNo = False
    timestamp: YesNo = False
    on_data_loss: Annotated[Literal["error", "pass"], Meta(description="give error or pass")] = "error"
    options: KafkaOptions = field(default_factory=dict)


class GeneratorSource(Section, tag="generators", frozen=True):
    """Generated events: smart homes, or what a class of your own makes."""

    generator: Annotated[
        str, _text("give the import path of a dataclass of events, such as headwater.generator:SmartHome")
    ] = "headwater.generator:SmartHome"
    fields: Annotated[
        dict[str, Any], Meta(description="give the fields of the generator, such as {seconds: 60, rate: 1000}")
    ] = field(default_factory=dict)
    count: Annotated[int, _COUNT] = 1
    pace: Annotated[
        Literal["fast", "real"], Meta(description="give fast (as fast as they are read) or real (as their time comes)")
    ] = "fast"


Source: TypeAlias = str | FolderSource | FilesSource | SegmentLogSource | KafkaSource | GeneratorSource


# --- when events were ---


class ColumnTime(Section, tag="column", frozen=True):
    """A column of integers, timestamps or dates."""

    column: Annotated[str, _COLUMN]
    unit: Unit = "us"


class EpochTime(Section, tag="epoch", frozen=True):
    """A column of numbers since 1970, whole or not."""

    column: Annotated[str, _COLUMN]
    unit: Unit = "s"


class IsoTime(Section, tag="iso", frozen=True):
    """A column of text by ISO 8601."""

    column: Annotated[str, _COLUMN]


class ArrivalTime(Section, tag="arrival", frozen=True):
    """When the event arrived."""


EventTimes: TypeAlias = str | ColumnTime | EpochTime | IsoTime | ArrivalTime


# --- where rows go ---

_MODE = Meta(description="give append (each row stays) or upsert (the last revision of every window)")
Mode: TypeAlias = Annotated[Literal["append", "upsert"], _MODE]


class ToFolder(Section, tag="folder", frozen=True):
    """Parquet files in a folder."""

    path: Annotated[str, _text("name a folder of this machine")]
    every: Annotated[str, _CLOCK_TIME] | None = None
    replace: YesNo = False


class ToLog(Section, tag="log", frozen=True):
    """A segment log of one partition."""

    path: Annotated[str, _text("name the folder of a segment log")]


class ToKafka(Section, tag="kafka", frozen=True):
    """A topic of Kafka, a message for each row."""

    servers: Annotated[str, _text("give brokers as host:port, several with commas between")]
    topic: Annotated[str, _text("name a topic")]
    transactions: YesNo = True
    shared: YesNo = False
    options: KafkaOptions = field(default_factory=dict)


class ToConsole(Section, tag="console", frozen=True):
    """Rows on standard output."""


class ToTable(Section, tag="table", frozen=True):
    """A table of Spark's catalog."""

    name: Annotated[str, _text("name a table, such as main.iot.windows")]
    mode: Mode = "append"


class ToPostgres(Section, tag="postgres", frozen=True):
    """A table of PostgreSQL."""

    dsn: Annotated[str, _text("give where the database is, such as ${PG_DSN}", is_secret=True)]
    table: Annotated[str, _text("name a table")]
    mode: Mode = "append"


Target: TypeAlias = Annotated[
    str | ToFolder | ToLog | ToKafka | ToConsole | ToTable | ToPostgres,
    Meta(description="name a folder, write console, or {type: folder, path: ...} and so on", extra={"check": "target"}),
]


# --- how it runs ---


class SparkSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How Spark runs the job."""

    master: Annotated[str, _text("give a master, such as local[4] or spark://host:7077")] | None = None
    conf: Annotated[
        dict[str, Annotated[str | int | float | bool, Meta(description="give text, a number, true or false")]],
        Meta(description="give settings of Spark by name, such as {spark.executor.memory: 4g}"),
    ] = field(default_factory=dict)
    tasks: Annotated[int, _COUNT] | None = None
    max_events_per_trigger: Annotated[int, _COUNT] | None = None
    root: Annotated[Literal["auto", "driver", "reducers"], Meta(description="give auto, driver or reducers")] = "auto"
    count_scheme: Annotated[str, _text("give auto, or a scheme such as monitor, async, central")] = "auto"


class MetricsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where Prometheus may ask."""

    port: Annotated[int, _PORT]
    host: Annotated[str, _HOST] = "127.0.0.1"


class PageSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The live page."""

    port: Annotated[int, _PORT]
    host: Annotated[str, _HOST] = "127.0.0.1"
    token: (
        Annotated[str, _text("give a secret that readers have to know, such as ${PAGE_TOKEN}", is_secret=True)] | None
    ) = None


class Job(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job: where events come from, the queries over them, and where rows go."""

    headwater: Annotated[
        Literal[1], Meta(description=f"this release reads version {VERSION}: write headwater: {VERSION}")
    ]
    source: Annotated[
        Source,
        Meta(description="say what to read: a folder such as events/, or {type: folder, path: ...} and so on"),
    ]
    queries: Annotated[
        Annotated[str, Meta(min_length=1)] | Annotated[list[dict[str, Any]], Meta(min_length=1)],
        Meta(description="list queries, or name a file of them such as queries.yaml"),
    ]
    sinks: Annotated[
        dict[str, Target],
        Meta(description="say where the rows of each query go, such as {load: out/load, aside: out/aside}"),
    ]
    name: Annotated[str, _text("give the job a name")] | None = None
    rename: Names = field(default_factory=dict)
    home: (
        Annotated[
            Annotated[str, Meta(min_length=1)] | dict[str, str],
            Meta(description="name a column, or give nodes by their sources, such as {houses/7: north}"),
        ]
        | None
    ) = None
    time: Annotated[
        EventTimes,
        Meta(
            description="name a column, or write {type: epoch, column: ts, unit: s}, {type: iso, column: at}, {type: arrival}"
        ),
    ] = "time"
    disorder: EventTime = 0
    idle: Annotated[str, _CLOCK_TIME] | None = None
    ahead_max: (
        Annotated[
            Annotated[str, Meta(pattern=rf"{_DURATION_TEXT}|^any$")] | Annotated[int, Meta(ge=0)],
            Meta(description="write a duration such as '1 h', or any", extra={"check": "event time or any"}),
        ]
        | None
    ) = None
    strict: YesNo = False
    trigger: (
        Annotated[str, _text("write a time between batches such as '10 s', or available now", check="trigger")] | None
    ) = None
    end: (
        Annotated[
            Literal["flush", "keep"],
            Meta(description="give flush (open windows come out at the end) or keep (the next run goes on with them)"),
        ]
        | None
    ) = None
    checkpoint: Annotated[str, _text("name a folder that is this job's alone")] | None = None
    spark: Annotated[SparkSection, Meta(description="say how Spark runs it, such as {master: 'local[4]'}")] | None = (
        None
    )
    metrics: Annotated[MetricsSection, Meta(description="say where, such as {port: 9108}")] | None = None
    page: Annotated[PageSection, Meta(description="say where, such as {port: 8080}")] | None = None
