"""Spark's streams as a host of cases: all cases of a file in one `headwater.stream`, a batch for each step.

A turn shows the sources of a case up to its next watermark, and is over when the root has taken that in and waits for nothing:
where it asks leaves to cut, their answers are batches of their own. The rows of all these batches are the rows of the turn.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import lcm
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.cases.hosts import Played
from headwater.cases.outcome import CASE_ERRORS, CaseOutcome, run_case
from headwater.cases.spark_host import Answered, leaf_count, sound_cases
from headwater.cases.stream import Case
from headwater.cases.stream_input import CaseInput
from headwater.cases.stream_script import Script, Turn, alignment_of, script_of
from headwater.cases.tree_host import in_order
from headwater.errors import HeadwaterError, QueryError
from headwater.language.files.queries import to_json
from headwater.language.schemas import check_schemas
from headwater.reference.rows import ResultRow
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.directives import Directive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How often the outcome of a turn is looked for.
LOOK_SECONDS = 0.01


def run_cases(spark: SparkSession, cases: Sequence[Case]) -> list[CaseOutcome]:
    """How each case went, after one stream for all of them."""
    outcomes, scripts = _scripts(cases)
    if scripts:
        with TemporaryDirectory(prefix="headwater-cases-") as folder:
            outcomes |= _play(spark, scripts, Path(folder))
    return [outcomes[number] for number in range(len(cases))]


def _scripts(cases: Sequence[Case]) -> tuple[dict[int, CaseOutcome], list[Script]]:
    """The outcome of cases that cannot be played, and the others, one above the other."""
    outcomes, alignments = sound_cases(cases, lambda case: leaf_count(case) and alignment_of(case))
    scripts: list[Script] = []
    floor = 0
    for number in alignments:
        case = cases[number]
        try:
            script, above = script_of(case, number, floor, lcm(*alignments.values()))
            check_schemas(list(script.named.values()), _schema([script]), "time")
        except NotImplementedError as error:
            outcomes[number] = CaseOutcome(case["id"], "skipped", str(error))
        except CASE_ERRORS as error:
            outcomes[number] = CaseOutcome.of_error(case["id"], error)
        else:
            scripts.append(script)
            floor = above
    return outcomes, scripts


def _schema(scripts: Sequence[Script]) -> pa.Schema:
    """One column of values for each type that they have."""
    columns: dict[str, pa.DataType] = {"time": pa.int64(), "case": pa.string(), "key": pa.string()}
    for script in scripts:
        columns[script.column] = pa.type_for_alias(script.column.partition(" ")[2])
    return pa.schema(list(columns.items()))


def _play(spark: SparkSession, scripts: Sequence[Script], folder: Path) -> dict[int, CaseOutcome]:
    outcomes: dict[int, CaseOutcome] = {}
    stage = _Stage(spark, scripts, folder)
    try:
        for place, script in enumerate(scripts):
            try:
                answer = stage.play(script, scripts[place + 1 : place + 2])
            except HeadwaterError as error:
                outcomes[script.number] = CaseOutcome.of_error(script.case["id"], error)
            else:
                outcomes[script.number] = run_case(script.case, Answered(answer))
    finally:
        stage.close()
    return outcomes


class _Stage:
    """The stream on which the scripts are played."""

    def __init__(self, spark: SparkSession, scripts: Sequence[Script], folder: Path) -> None:
        from headwater.spark.stream import stream

        self._input = CaseInput(folder, _schema(scripts))
        self._input.store({name: source for script in scripts for name, source in script.sources.items()})
        self._ends = dict.fromkeys(scripts[0].sources, 0)
        self._input.show(self._ends)
        self._rows: dict[int, pa.Table] = {}
        self._aside: dict[int, pa.Table] = {}
        self._batch = -1  # the last whose rows were taken
        self._commands = 0
        self._stream = stream(
            spark,
            self._input,
            [query for script in scripts for query in script.queries],
            checkpoint=folder / "checkpoint",
            sink=lambda rows, batch: self._rows.update({batch: rows}),
            aside=lambda rows, batch: self._aside.update({batch: rows}),
            disorder=None,
            root="driver",
            progress=False,
        )
        self._checkpoint = StreamCheckpoint(folder / "checkpoint" / "headwater")

    def close(self) -> None:
        self._stream.stop()

    def play(self, script: Script, following: Sequence[Script]) -> Any:
        """What the stream says to a case: the rows of each step, or the answers to all that a merge asks."""
        emitted: dict[int, list[ResultRow]] = {}
        places = set()
        for turn in script.turns:
            if turn is script.turns[-1]:
                # The sources of the next one join while this one ends: a batch less.
                self._ends |= {name: 0 for each in following for name in each.sources}
            for rows, aside in self._taken(turn):
                found = in_order(list(script.answers(rows)), [name.partition(":")[2] for name in script.named])
                if found:
                    emitted.setdefault(turn.index, []).extend(found)
                for row in aside.to_pylist():
                    if row["query"] in script.named:
                        places.add(script.place(row["query"], row["source"], row["offset"]))
        if script.case["kind"] == "merge":
            values = {row.query: row.values["value"] for rows in emitted.values() for row in rows}
            return [values.get(str(place)) for place in range(len(script.queries))]
        return Played(list(emitted.items()), frozenset(places), {})

    def _taken(self, turn: Turn) -> list[tuple[pa.Table, pa.Table]]:
        """Let a turn happen; the rows and the events put aside of its batches."""
        if turn.added is not None:
            self._add(turn)
        self._ends |= turn.ends
        self._input.show(self._ends)
        last = self._settled()
        batches = range(self._batch + 1, last + 1)
        self._batch = last
        return [(self._rows.pop(batch, pa.table({})), self._aside.pop(batch)) for batch in batches]

    def _add(self, turn: Turn) -> None:
        assert turn.added is not None
        number = self._checkpoint.ask({"what": "add", "queries": to_json([turn.added]), "at": turn.at})
        self._commands = number + 1
        self._settled()
        refused = self._checkpoint.refused(number)
        if refused is not None:
            raise QueryError(refused)

    def _settled(self) -> int:
        """The batch after which the root knows everything that is shown, and waits for nothing."""
        seen = None
        while True:
            last = self._checkpoint.last_batch()
            if last != seen and last is not None:
                seen = last
                data = self._checkpoint.directive(last)
                if data is not None and self._is_settled(Directive.from_data(data)):
                    return last
            if not self._stream.is_active:
                self._stream.await_end()
                raise HeadwaterError("the stream of the cases has stopped")
            time.sleep(LOOK_SECONDS)

    def _is_settled(self, directive: Directive) -> bool:
        accepted = {source.name: source.offset for each in directive.assigns.values() for source in each.sources}
        is_read = all(accepted.get(name) == end for name, end in self._ends.items())
        return is_read and not directive.wants_batch and directive.commands == self._commands
