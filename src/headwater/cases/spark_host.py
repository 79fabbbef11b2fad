"""Spark as a host of cases: all cases of a file are one job, and the number of the case is one key more.

Each source of a case is a leaf inside a task. What the root would tell it (chains, accepted deltas, added queries) is a function
of the case and of its own frames alone, so a copy of the root beside the leaf says the same. The one root of a case is behind the
shuffle: it hears the frames of all leaves, step by step, and must accept every one.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.cases.hosts import EngineHost, Played, arrow_schema, batches, dropped_places
from headwater.cases.merge import run_merge
from headwater.cases.outcome import CASE_ERRORS, CaseOutcome, run_case
from headwater.cases.stream import Case, history_of, settings_of
from headwater.cases.tree_host import ROOT, Player, finished, in_order, part_frame
from headwater.engine.results.aggregates import operators_of
from headwater.errors import HeadwaterError
from headwater.language.aggregations import Aggregation
from headwater.node import RootNode
from headwater.protocols.actions import Action, EmitAside, EmitRows, Noted
from headwater.protocols.events import Event, MessageReceived, QueryAdded
from headwater.reference.history import Added, Arrived, Joined, Step, StreamSettings
from headwater.simulator.checks.checkers import result_rows
from headwater.simulator.instant import InstantTree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORK = "case int, leaf int, text string"
#: ``step``: when the frame is sent; of a merge the number of the question. ``error``: instead of a frame.
FRAMES = "case int, leaf int, step int, number int, frame binary, error string"
ANSWERS = "case int, answer binary, error string"
FRAMES_ARROW = pa.schema(
    [(name, pa.int32()) for name in ("case", "leaf", "step", "number")]
    + [("frame", pa.binary()), ("error", pa.string())]
)
ANSWERS_ARROW = pa.schema([("case", pa.int32()), ("answer", pa.binary()), ("error", pa.string())])
NO_SOURCE = "it has no events, so there is no source that a task could read"
#: One job of a few dozen small cases.
PARTITIONS = 4
#: A JVM of seconds need not compile well.
QUICK_START = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

#: An aggregate and its parts, each the values that one node has.
Question = tuple[Aggregation, list[list[Any]]]


@contextmanager
def open_spark(is_stream: bool = False) -> Iterator[Callable[[Sequence[Case]], list[CaseOutcome]]]:
    """Runs the cases of a file, as a job or as a stream, on the Spark that is there or on one of its own."""
    from headwater.spark.session import local_session
    from headwater.spark.setup import check_libraries

    check_libraries()
    from pyspark.sql import SparkSession

    from headwater.cases import stream_host

    run = stream_host.run_cases if is_stream else run_cases
    there = SparkSession.getActiveSession()
    spark = there or local_session("headwater check", **QUICK_START)
    try:
        yield lambda cases: run(spark, cases)
    finally:
        if there is None:
            spark.stop()


def run_cases(spark: SparkSession, cases: Sequence[Case]) -> list[CaseOutcome]:
    """How each case went, after one job for all of them."""
    outcomes, sound = sound_cases(cases, leaf_count)
    work = [(number, leaf, json.dumps(cases[number])) for number, leaves in sound.items() for leaf in range(leaves)]
    if work:
        for row in answers(spark.createDataFrame(work, WORK).repartition(PARTITIONS)).toArrow().to_pylist():
            case = cases[row["case"]]
            outcomes[row["case"]] = (
                CaseOutcome(case["id"], "failed", row["error"])
                if row["error"] is not None
                else run_case(case, Answered(pickle.loads(row["answer"])))
            )
    return [outcomes[number] for number in range(len(cases))]


def sound_cases(cases: Sequence[Case], measure: Callable[[Case], int]) -> tuple[dict[int, CaseOutcome], dict[int, int]]:
    """By number, the outcome of cases that cannot be run, and what the others measure, which is 0 if there is nothing to read."""
    outcomes, measures = {}, {}
    for number, case in enumerate(cases):
        try:
            measures[number] = measure(case)
        except CASE_ERRORS as error:
            outcomes[number] = CaseOutcome.of_error(case["id"], error)
        else:
            if not measures[number]:
                outcomes[number] = CaseOutcome(case["id"], "skipped", NO_SOURCE)
    return outcomes, {number: found for number, found in measures.items() if found}


def answers(work: DataFrame) -> DataFrame:
    """The job: leaves, a shuffle by case, roots."""

    def leaves(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headwater.cases.spark_host import leaf_rows

        for batch in given:
            rows = [out for row in batch.to_pylist() for out in leaf_rows(**row)]
            yield pa.RecordBatch.from_pylist(rows, schema=FRAMES_ARROW)

    def roots(given: pa.Table) -> pa.Table:
        from headwater.cases.spark_host import answer_row

        return pa.Table.from_pylist([answer_row(given.to_pylist())], schema=ANSWERS_ARROW)

    frames = work.mapInArrow(leaves, FRAMES)
    return frames.groupBy("case").applyInArrow(roots, ANSWERS)


# --- leaves ---


def leaf_count(case: Case) -> int:
    """The sources of a stream, or the nodes whose partials are merged at once."""
    if case["kind"] == "merge":
        return max((len(parts) for _, parts in questions(case)), default=0)
    return len(_sources(list(history_of(case))))


def leaf_rows(case: int, leaf: int, text: str) -> Iterator[dict[str, Any]]:
    """What one leaf of one case sends, row by row; the first holds the case itself."""
    read: Case = json.loads(text)
    yield {"case": case, "leaf": leaf, "step": -1, "number": 0, "frame": text.encode()}
    try:
        sent = list((merge_frames if read["kind"] == "merge" else stream_frames)(read, leaf))
    except CASE_ERRORS as error:
        yield {"case": case, "leaf": leaf, "step": 0, "number": 0, "error": CaseOutcome.of_error("", error).text}
        return
    for number, (step, frame) in enumerate(sent):
        yield {"case": case, "leaf": leaf, "step": step, "number": number, "frame": frame}


def stream_frames(case: Case, leaf: int) -> Iterator[tuple[int, bytes]]:
    """The frames of one source, each with the step of the history that brings it out."""
    settings, history = settings_of(case), list(history_of(case))
    source = _sources(history)[leaf]
    schema = arrow_schema(history, settings.time)
    tree = Overheard({_name(leaf): ROOT}, settings.queries, **_root_settings(settings, schema))
    player = Player(tree, {source: _name(leaf)}, _homes(history), schema)
    for index, step, arrivals in batches(history):
        if isinstance(step, Arrived | Joined) and step.source != source:
            continue
        if arrivals:
            player.push(arrivals)
        else:
            player.drive(step)
        yield from ((index, frame) for frame in tree.take_heard())


class Overheard(InstantTree):
    """One leaf below a copy of the root; what the root hears is written down."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._heard: list[bytes] = []
        super().__init__(*arguments, **settings)

    def handle(self, name: str, event: Event) -> None:
        if name == ROOT and isinstance(event, MessageReceived):
            self._heard.append(bytes(event.frame))
        super().handle(name, event)

    def take_heard(self) -> list[bytes]:
        """The frames since the last call."""
        heard, self._heard = self._heard, []
        return heard


def merge_frames(case: Case, leaf: int) -> Iterator[tuple[int, bytes]]:
    """One node's part of every question, as bytes."""
    for number, (aggregation, parts) in enumerate(questions(case)):
        if leaf < len(parts):
            type_ = _type_of(parts)
            yield number, part_frame(operators_of(aggregation, type_), pa.array(parts[leaf], type_))


# --- the root ---


def answer_row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the root of a case makes of all its frames."""
    number = rows[0]["case"]
    errors = [row["error"] for row in rows if row["error"] is not None]
    if errors:
        return {"case": number, "error": errors[0]}
    ordered = sorted(rows, key=lambda row: (row["step"], row["leaf"], row["number"]))
    case: Case = json.loads(ordered[0]["frame"])
    frames: dict[int, list[tuple[str, bytes]]] = {}
    for row in ordered:
        frames.setdefault(row["step"], []).append((_name(row["leaf"]), row["frame"]))
    try:
        answer = (merge_answers if case["kind"] == "merge" else stream_answer)(case, frames)
    except CASE_ERRORS as error:
        return {"case": number, "error": CaseOutcome.of_error("", error).text}
    return {"case": number, "answer": pickle.dumps(answer)}


def stream_answer(case: Case, frames: dict[int, list[tuple[str, bytes]]]) -> Played:
    """The rows of each step, as `TreeHost` gives them."""
    settings, history = settings_of(case), list(history_of(case))
    root = RootNode(ROOT, settings.queries, **_root_settings(settings, arrow_schema(history, settings.time)))
    queries = {query.name: query for query in settings.queries}
    emitted, aside, tables = [], [], []
    for index, step, arrivals in batches(history):
        actions: list[Action] = []
        if isinstance(step, Added):
            queries[step.query.name] = step.query
            actions += root.handle(QueryAdded(step.query, step.at), 0)
        for leaf, frame in frames.get(index, ()):
            actions += _accepted(leaf, root.handle(MessageReceived(leaf, frame), 0))
        tables += [action.rows for action in actions if isinstance(action, EmitRows)]
        aside += [action.rows for action in actions if isinstance(action, EmitAside)]
        if tables and not arrivals:
            rows = result_rows(pa.concat_tables(tables, promote_options="permissive"), queries)
            emitted.append((index, in_order(rows, list(queries))))
            tables = []
    dropped = dropped_places(pa.concat_tables(aside)) if aside else frozenset()
    return Played(emitted, dropped, root.counters())


def merge_answers(case: Case, frames: dict[int, list[tuple[str, bytes]]]) -> list[Any]:
    """The answers to all questions, in their order."""
    return [
        finished(aggregation, [frame for _, frame in frames[number]], _type_of(parts))
        for number, (aggregation, parts) in enumerate(questions(case))
    ]


def _accepted(leaf: str, actions: list[Action]) -> list[Action]:
    """Spark loses nothing and doubles nothing, so every frame is accepted."""
    for action in actions:
        if isinstance(action, Noted) and action.what in ("rejected", "refused", "damaged frame", "damaged delta"):
            raise HeadwaterError(f"{leaf}: {action.what}, {action.detail}")
    return actions


# --- what is asked, and how it is answered ---


class Asking(EngineHost):
    """Writes down what a merge would have a host finish."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Question] = []

    def finish(self, aggregation: Aggregation, parts: Sequence[Sequence[Any]]) -> Any:
        self.asked.append((aggregation, [list(part) for part in parts]))


class Answered(EngineHost):
    """Knows what the job said: what came of a history, or the answers to all questions."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer

    def play(self, settings: StreamSettings, history: Sequence[Step], schema: pa.Schema | None = None) -> Played:
        played: Played = self._answer
        return played

    def finish(self, aggregation: Aggregation, parts: Sequence[Sequence[Any]]) -> Any:
        return self._answer.pop(0)


def questions(case: Case) -> list[Question]:
    """What a merge asks, in order: values decide nothing there, so it can all be asked at once."""
    asking = Asking()
    run_merge(case, asking)
    return asking.asked


def _type_of(parts: list[list[Any]]) -> pa.DataType:
    return pa.array([value for part in parts for value in part]).type


def _sources(history: Sequence[Step]) -> list[str]:
    return sorted({step.source for step in history if isinstance(step, Arrived | Joined)})


def _homes(history: Sequence[Step]) -> dict[str, str]:
    return {step.source: step.node for step in history if isinstance(step, Joined)}


def _root_settings(settings: StreamSettings, schema: pa.Schema) -> dict[str, Any]:
    # No round trips: nothing comes back down from the root of a job.
    return {"time": settings.time, "disorder": settings.disorder, "schema": schema, "round_trips": False}


def _name(leaf: int) -> str:
    return f"leaf-{leaf}"
