"""The bytes that cross between Python workers, executors and the driver, from Spark's own metrics of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETURNED = "data returned from Python workers"
SHUFFLED = "data size"
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class CrossedBytes:
    """Bytes out of Python workers, written for shuffles, and sent to the driver by tasks."""

    python: int
    shuffle: int
    results: int

    @property
    def total(self) -> int:
        """All bytes together."""
        return self.python + self.shuffle + self.results


def crossing(spark: SparkSession, work: Callable[[], object]) -> CrossedBytes:
    """The bytes that cross while ``work`` runs one or several jobs in this session."""
    store = spark._jsparkSession.sharedState().statusStore()
    before = {execution.executionId() for execution in _all(store.executionsList())}
    work()
    context = spark.sparkContext._jsc.sc()
    # What tasks have told is booked by another thread.
    context.listenerBus().waitUntilEmpty()
    python = shuffle = results = 0
    for execution in _all(store.executionsList()):
        if execution.executionId() in before:
            continue
        python += _python_bytes(spark, store, execution.executionId())
        for number in _all(execution.stages()):
            stage = context.statusStore().lastStageAttempt(number)
            shuffle, results = shuffle + stage.shuffleWriteBytes(), results + stage.resultSize()
    return CrossedBytes(python, shuffle, results)


def _python_bytes(spark: SparkSession, store: Any, execution: int) -> int:
    """The bytes that the nodes of a plan got from Python workers.

    A Python data source tells Spark 4.3 its running total again and again, and all are added up. So of a source what counts is
    the size of its rows in the first shuffle behind it.
    """
    graph, texts = store.planGraph(execution), store.executionMetrics(execution)
    nodes = {node.id(): node for node in _all(graph.allNodes())}
    above = {edge.fromId(): edge.toId() for edge in _all(graph.edges())}
    counted: dict[int, int] = {}
    for number, node in nodes.items():
        metric = _metric(node, RETURNED)
        if metric is None:
            continue
        if metric.metricType().startswith("v2Custom"):
            metric = _first_shuffle(nodes, above, number) or metric
        counted[metric.accumulatorId()] = _value(spark, metric, texts)
    return sum(counted.values())


def _first_shuffle(nodes: dict[int, Any], above: dict[int, int], number: int) -> Any | None:
    while number in above:
        number = above[number]
        if nodes[number].name().startswith("Exchange"):
            return _metric(nodes[number], SHUFFLED)
    return None


def _metric(node: Any, name: str) -> Any | None:
    return next((metric for metric in _all(node.metrics()) if metric.name() == name), None)


def _value(spark: SparkSession, metric: Any, texts: Any) -> int:
    """The value of a metric: the number itself while Spark still has it, else what its text for people says."""
    assert spark._jvm is not None
    found = spark._jvm.org.apache.spark.util.AccumulatorContext.get(metric.accumulatorId())
    if found.isDefined():
        return int(found.get().value())
    text = texts.get(metric.accumulatorId())
    return size_in(text.get()) if text.isDefined() else 0


def size_in(text: str) -> int:
    """The total of a metric that Spark has written for people.

    >>> size_in("84.0 KiB"), size_in("total (min, med, max (stageId: taskId))\\n2.0 MiB (0.0 B, 1.0 MiB, 1.0 MiB (driver))")
    (86016, 2097152)
    """
    number, unit = text.splitlines()[-1].split()[:2]
    return int(float(number.replace(",", "")) * 1024 ** UNITS.index(unit))


def _all(collection: Any) -> Iterator[Any]:
    """What a Scala collection holds."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()
