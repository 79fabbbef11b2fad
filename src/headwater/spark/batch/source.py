"""headwater's data source as Spark calls it: `spark.read.format("headwater")`.

Without queries it gives events. `headwater.read` puts a plan with queries into its options; then every partition reader is a
leaf, and only deltas enter the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headwater.errors import DataError
from headwater.language.user_code import load_path
from headwater.spark.batch.leaf import FRAMES, LeafTask
from headwater.spark.batch.plan import ReadPlan, plan_events
from headwater.spark.batch.root import PARALLELISM
from headwater.spark.types import fitted, spark_types


class HeadwaterSource(DataSource):
    """Options: ``path``; ``format``; ``columns``, separated by commas; ``tasks``, how many at least.

    Instead of a path ``generator``, where the class of a generator is ("headwater.generator:SmartHome"), and ``fields``, what it
    is made of as JSON. Or ``plan``, from `read`.
    """

    @classmethod
    def name(cls) -> str:
        return "headwater"

    @cached_property
    def plan(self) -> ReadPlan:
        options = self.options
        if "plan" in options:
            return ReadPlan.from_text(options["plan"])
        if "path" not in options and "generator" not in options:
            raise DataError("no path is given; say which folder or file to read: .load(path)")
        source = _generator(options) if "generator" in options else options["path"]
        listed = options.get("columns")
        columns = None if listed is None else [name.strip() for name in listed.split(",")]
        tasks = int(options.get("tasks", PARALLELISM))
        return plan_events(source, options.get("format"), columns, tasks)

    def schema(self) -> StructType:
        return spark_types(_output(self.plan))[1]

    def reader(self, schema: StructType) -> DataSourceReader:
        # Without pushFilters: what was pushed for one query of a DataFrame Spark 4.3 keeps for the next, which wants other rows.
        return HeadwaterReader(self.plan, int(self.options.get("roots", 1)))


def _generator(options: Mapping[str, str]) -> Any:
    try:
        return load_path(options["generator"])(**json.loads(options.get("fields", "{}")))
    except (TypeError, ValueError) as error:
        raise DataError(f"generator is {options['generator']!r}: {error}") from error


def _output(plan: ReadPlan) -> pa.Schema:
    if plan.root is not None:
        return FRAMES
    return pa.schema([plan.schema.field(name) for name in plan.columns])


class HeadwaterReader(DataSourceReader):
    """Reads one task of a plan at a time."""

    def __init__(self, plan: ReadPlan, roots: int) -> None:
        # As text: Spark sends the reader to every task.
        self._text = plan.to_text()
        self._roots = roots

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in range(len(ReadPlan.from_text(self._text).tasks))]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        plan, task = ReadPlan.from_text(self._text), partition.value
        if plan.root is None:
            schema, _ = spark_types(_output(plan))
            return (fitted(batch, schema) for batch in plan.events(task))
        sources = [(piece.source, piece.home) for piece in plan.tasks[task]]
        return LeafTask(plan.root, task, sources, self._roots).run(plan.feeds(task), plan.flush)
