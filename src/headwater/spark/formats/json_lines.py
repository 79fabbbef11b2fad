"""Lines of JSON, an object each."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headwater.spark.formats.file_range import Wanted
from headwater.spark.formats.text import ParsedColumn, converted, in_text, one_batch

#: Arrow's reader brings the process down where a line, or what follows an object on its line, is null.
_FATAL = re.compile(rb"(?:\A|[\n}\]])\s*null")


class JsonLines:
    """Lines of a JSON file: names that a line lacks are null, names that were not asked for are passed over."""

    begin = 0
    begin_number = 1

    def __init__(self, first_block: bytes) -> None:
        """There is no header."""

    def is_empty(self, line: bytes) -> bool:
        return not line.strip()

    def names(self, wanted: Wanted) -> list[str]:
        return list(wanted.columns)

    def schema(self, block: bytes) -> pa.Schema:
        try:
            return _table(block, None).schema
        except (pa.ArrowException, ValueError):
            return _table(_ordinary(block), None).schema

    def parse(self, block: bytes, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
        types = pa.schema([(name, in_text(schema.field(name).type)) for name in names])
        table = _table(block, types)
        if not block.isascii():
            table.validate(full=True)
        return one_batch(table.select(list(names)))

    def problem(self, line: bytes) -> str | None:
        try:
            found = _loaded(line)
        except UnicodeDecodeError as error:
            return f"byte {error.start} of the line is no UTF-8"
        except (ValueError, RecursionError) as error:
            return f"this is no JSON: {error}"
        return None if isinstance(found, dict) else "this is no JSON object"

    def columns(self, lines: Sequence[bytes], names: Sequence[str], schema: pa.Schema) -> list[ParsedColumn]:
        rows = list(map(_loaded, lines))
        return [_column([row.get(name) for row in rows], in_text(schema.field(name).type)) for name in names]


def _table(block: bytes, types: pa.Schema | None) -> pa.Table:
    from pyarrow import json as arrow

    if b"null" in block and _FATAL.search(block):
        raise ValueError("null is no object")
    parse = None
    if types is not None:
        parse = arrow.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore")
    options = arrow.ReadOptions(block_size=len(block) + 1, use_threads=False)
    return arrow.read_json(pa.BufferReader(block), read_options=options, parse_options=parse)


def _loaded(line: bytes) -> Any:
    return json.loads(line.decode(), parse_float=_number)


def _number(text: str) -> float | str:
    """A number that no float holds is none."""
    value = float(text)
    return text if math.isinf(value) else value


def _column(values: list[Any], type_: pa.DataType) -> ParsedColumn:
    unread: dict[int, str] = {}
    fits = _FITS.get(type_)
    found = []
    for row, value in enumerate(values):
        read = value if value is None or (fits is not None and fits(value)) else _converted(value, type_, fits)
        if read is None and value is not None:
            unread[row] = value if isinstance(value, str) and _is_text(value) else json.dumps(value)
        # Arrow makes no floats of integers that no float equals.
        found.append(float(read) if type_ == pa.float64() and read is not None else read)
    return ParsedColumn(pa.array(found, type_), unread)


def _is_text(value: str) -> bool:
    """Half of a pair of surrogates is none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _converted(value: Any, type_: pa.DataType, fits: Any) -> Any:
    """A value of a type that JSON has not; None if it is none."""
    if fits is not None:
        return None
    if isinstance(value, str) and _is_text(value):
        return converted(pa.array([value]), type_).values[0].as_py()
    try:
        scalar = pa.scalar(value, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    is_plain_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
    return None if is_plain_number and isinstance(value, bool | float) and scalar.as_py() != value else scalar.as_py()


#: What a value of JSON has to be for the types that are most common.
_FITS: dict[pa.DataType, Any] = {
    pa.int64(): lambda value: type(value) is int and -(2**63) <= value < 2**63,
    pa.float64(): lambda value: type(value) is float or (type(value) is int and abs(value) < 2**1023),
    pa.string(): lambda value: type(value) is str and _is_text(value),
    pa.bool_(): lambda value: type(value) is bool,
}


def _ordinary(block: bytes) -> bytes:
    """The lines whose values are of the kinds that most lines have: Arrow tells no types where they differ."""
    lines = [line for line in block.split(b"\n") if line.strip()]
    rows = []
    for line in lines:
        try:
            found = _loaded(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            rows.append((line, {name: _kind(value) for name, value in found.items() if value is not None}))
    kinds: dict[str, Counter[str]] = {}
    for _, row in rows:
        for name, kind in row.items():
            kinds.setdefault(name, Counter())[kind] += 1
    usual = {name: counts.most_common(1)[0][0] for name, counts in kinds.items()}
    good = [line for line, row in rows if all(usual[name] == kind for name, kind in row.items())]
    if not good:
        raise ValueError("none of its first lines is a JSON object")
    return b"\n".join(good)


def _kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__
