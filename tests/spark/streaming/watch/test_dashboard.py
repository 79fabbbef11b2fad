"""The dashboard for Grafana asks for nothing that is not there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headwater.spark.streaming.watch.metrics import StatusCollector
from headwater.spark.streaming.watch.status import QueryStatus, SparkProgress, StreamStatus

DASHBOARD = Path(__file__).parents[4] / "docs" / "grafana" / "headwater.json"
#: A status of which everything is known.
WHOLE = StreamStatus(
    batch=1,
    watermark_us=1,
    watermark_lag_s=1.0,
    open_windows=1,
    queries={"load": QueryStatus(1, {"late": 1})},
    link_bytes={"a": 1},
    spark=SparkProgress(1, 1, {"addBatch": 1.0}),
)


def asked(value: Any) -> Iterator[str]:
    """Every text of the dashboard that Prometheus is asked."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("expr", "query") and isinstance(inner, str):
                yield inner
            else:
                yield from asked(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from asked(inner)


def samples() -> dict[str, set[str]]:
    """The labels of every metric that a scrape gives."""
    found: dict[str, set[str]] = {}
    for family in StatusCollector(lambda: WHOLE).collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_metric_of_the_dashboard_exists_with_the_labels_it_is_asked_by():
    known = samples()
    texts = list(asked(json.loads(DASHBOARD.read_text())))
    named = [(name, inside) for text in texts for name, inside in re.findall(r"(headwater_\w+)(?:\{([^}]*)\})?", text)]
    assert len({name for name, _ in named}) >= 12
    for name, inside in named:
        assert name in known, f"there is no metric {name}"
        assert set(re.findall(r"(\w+)\s*=~?", inside)) <= known[name], f"{name} has the labels {sorted(known[name])}"
    for text in texts:
        for grouped in re.findall(r"by \(([^)]*)\)", text):
            name = re.search(r"headwater_\w+", text)[0]
            assert {label.strip() for label in grouped.split(",")} <= known[name], text


def test_every_metric_that_is_no_part_of_another_is_on_the_dashboard():
    left_out = {
        "headwater_batch",
        "headwater_watermark_seconds",
        "headwater_spark_input_rows",
        "headwater_spark_dropped_rows",
    }
    shown = set(re.findall(r"headwater_\w+", DASHBOARD.read_text()))
    known = {name for name in samples() if not name.endswith(("_sum", "_count", "_created"))}
    assert known - shown == left_out
