"""Lines of comma-separated values, the first of which names the columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.language.schemas import refuse_doubled
from headwater.spark.formats.file_range import Wanted
from headwater.spark.formats.text import ParsedColumn, converted, in_text, one_batch

#: Values in quotes as everybody writes them; others are left to Arrow.
_QUOTED = re.compile(rb'(?:"(?:[^"]|"")*"|[^",]*)(?:,(?:"(?:[^"]|"")*"|[^",]*))*\r?')
_MARK = b"\xef\xbb\xbf"  # some editors put it in front of UTF-8


class CsvLines:
    """Lines of a CSV file, read as Spark does: an empty value is null, two quotes are an empty text, no value spans lines."""

    def __init__(self, first_block: bytes) -> None:
        skipped = len(_MARK) if first_block.startswith(_MARK) else 0
        while first_block.startswith((b"\n", b"\r\n"), skipped):
            skipped = first_block.index(b"\n", skipped) + 1
        end = first_block.find(b"\n", skipped)
        self.begin = len(first_block) if end < 0 else end + 1
        self.begin_number = 1 + first_block.count(b"\n", 0, self.begin)
        header = first_block[skipped : self.begin].decode("utf-8", "replace")
        self._header = next(csv.reader([header.rstrip("\r\n")]))
        refuse_doubled(self._header, "the first line")

    def is_empty(self, line: bytes) -> bool:
        return line in (b"", b"\r")

    def names(self, wanted: Wanted) -> list[str]:
        return [name for name in wanted.columns if name in self._header]

    def schema(self, block: bytes) -> pa.Schema:
        good = [line for line in block.split(b"\n") if not self.is_empty(line) and self.problem(line) is None]
        if not good:
            return pa.schema([(name, pa.null()) for name in self._header])
        return self._table(b"\n".join(good), self._header, {}).schema

    def parse(self, block: bytes, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
        last = block[block.rfind(b"\n", 0, len(block) - 1) + 1 :].rstrip(b"\n")
        if not self._stands_alone(last):
            raise ValueError("a quote is not closed")  # Arrow does not mind where nothing follows
        types = {name: in_text(schema.field(name).type) for name in names}
        return one_batch(self._table(block, names, types))

    def problem(self, line: bytes) -> str | None:
        if b"\r" in line.rstrip(b"\r"):
            return "a carriage return stands within the line"
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            return f"byte {error.start} of the line is no UTF-8"
        count = _count(text.rstrip("\r"))
        if count != len(self._header):
            return f"{count} values for {len(self._header)} columns"
        return None if self._stands_alone(line) else "a quote is not closed"

    def _stands_alone(self, line: bytes) -> bool:
        """Whether the line ends where it ends, and not at a quote in the next one."""
        if b'"' not in line or _QUOTED.fullmatch(line):
            return True
        try:
            twice = self._table(line + b"\n" + line, self._header, dict.fromkeys(self._header, pa.string()))
        except pa.ArrowException:
            return False
        return bool(twice.num_rows == 2)

    def columns(self, lines: Sequence[bytes], names: Sequence[str], schema: pa.Schema) -> list[ParsedColumn]:
        texts = one_batch(self._table(b"\n".join(lines), names, dict.fromkeys(names, pa.string())))
        assert texts.num_rows == len(lines), "each line without a problem is one row"
        return [_read(texts.column(name), in_text(schema.field(name).type)) for name in names]

    def _table(self, block: bytes, names: Sequence[str], types: dict[str, pa.DataType]) -> pa.Table:
        from pyarrow import csv as arrow

        convert = arrow.ConvertOptions(include_columns=names, column_types=types)
        convert.null_values, convert.strings_can_be_null, convert.quoted_strings_can_be_null = [""], True, False
        # One block: it is small enough, and types are told from all of it.
        options = arrow.ReadOptions(column_names=self._header, block_size=len(block) + 1, use_threads=False)
        return arrow.read_csv(pa.BufferReader(block), read_options=options, convert_options=convert)


def _read(texts: pa.Array, type_: pa.DataType) -> ParsedColumn:
    return converted(texts if pa.types.is_string(type_) else pc.utf8_trim_whitespace(texts), type_)


def _count(text: str) -> int:
    try:
        return len(next(csv.reader([text])))
    except csv.Error:  # a value longer than this reader likes
        return text.count(",") + 1
