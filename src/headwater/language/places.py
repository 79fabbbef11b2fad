"""Places that a user names by text: paths of this machine, told from URLs, from names of tables and of formats.

A text with a scheme is never a local folder, though every file system would make one of it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from headwater.errors import DataError

#: A scheme has at least two letters: one is a drive. Behind it one slash will do (``dbfs:/``), and `Path` leaves no more.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(/(?P<host>[^/]*))?(?P<path>/?.*)", re.DOTALL)
#: ``schema.table`` or ``catalog.schema.table``, each part perhaps in backticks.
_TABLE = re.compile(r"([A-Za-z_]\w*|`[^`]+`)(\.([A-Za-z_]\w*|`[^`]+`)){1,2}")
#: What Spark and its users call formats.
FORMAT_NAMES = frozenset(
    """
    avro binaryfile bigquery cassandra cloudfiles csv delta deltasharing excel foreach hive hudi iceberg jdbc json kafka kinesis
    mongodb noop orc parquet pulsar rate redis snowflake socket sqlserver statestore table text xml
    """.split()
)


def local_path(what: str, given: str | os.PathLike[str], instead: str) -> Path:
    """The path that a text means: itself, or what ``file:`` stands before. A DataError says ``instead`` of any other URL.

    >>> local_path("sink", "out/windows", ""), local_path("sink", "file:///tmp/a%20b", "")
    (PosixPath('out/windows'), PosixPath('/tmp/a b'))
    >>> local_path("sink", "s3://bucket/windows", "give a folder")
    Traceback (most recent call last):
    headwater.errors.DataError: sink is 's3://bucket/windows': s3:// is not served; give a folder
    """
    text = os.fspath(given)
    url = _URL.fullmatch(text)
    if url is None:
        return Path(given)
    scheme, host = url["scheme"].lower(), url["host"]
    if scheme != "file":
        raise DataError(f"{what} is {text!r}: {scheme}:// is not served; {instead}")
    if host not in (None, "", "localhost"):
        raise DataError(f"{what} is {text!r}: {host!r} would be another machine; give file:///{host}{url['path']}")
    return Path("/", unquote(url["path"]).lstrip("/"))


def is_table_name(given: object) -> bool:
    """Whether a text looks like the name of a table.

    >>> [is_table_name(text) for text in ("main.iot.windows", "iot.`my windows`", "windows", "./main.iot", "a/b.c", ".x")]
    [True, True, False, False, False, False]
    """
    return isinstance(given, str) and _TABLE.fullmatch(given) is not None


def table_hint(given: object, reader: str) -> str:
    """What follows the refusal of a source that is perhaps a table's name; nothing for others.

    >>> table_hint("iot.readings", "spark.table"), table_hint("readings/", "spark.table")
    ("; a table is read by hw.aggregate(spark.table('iot.readings'), ...)", '')
    """
    return f"; a table is read by hw.aggregate({reader}({given!r}), ...)" if is_table_name(given) else ""


def is_format_name(given: object) -> bool:
    """Whether a text is what a format is called, rather than a place.

    >>> is_format_name("delta"), is_format_name("./delta")
    (True, False)
    """
    return isinstance(given, str) and given.lower() in FORMAT_NAMES
