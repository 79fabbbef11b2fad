"""What the demo asks, one query of each kind, an aggregate of one's own among them."""

from __future__ import annotations

import numpy as np

import headwater as hw


def _peak_lift(values: np.ndarray) -> list[float]:
    return [float(values.max()), float(values.sum()), len(values)] if len(values) else [0.0, 0.0, 0]


def _peak_combine(left: list[float], right: list[float]) -> list[float]:
    return [max(left[0], right[0]), left[1] + right[1], left[2] + right[2]]


def _peak_lower(partial: list[float]) -> float | None:
    highest, total, count = partial
    return highest * count / total if total else None


#: How far the highest load stands above the mean: an aggregate of one's own in three small functions.
peak_factor = hw.aggregate_of("peak_factor", _peak_lift, _peak_combine, _peak_lower, identity=[0.0, 0.0, 0])


def queries() -> dict[hw.Query, str]:
    """The demo's queries, each with a line that says what it asks."""
    appliance = hw.between(hw.col("activity") == "start", hw.col("activity") == "end", max_duration="10 min")
    return {
        hw.query(
            "average",
            hw.sliding("1 min", "10 s"),
            keys=["house"],
            lateness="30 s",
            avg=hw.avg("load"),
            max=hw.max("load"),
        ): "average and highest load of the last minute, every 10 s, by house; 30 s of lateness allowed",
        hw.query(
            "active",
            hw.session("15 s"),
            keys=["house"],
            where=hw.col("plug") == 0,
            readings=hw.count(),
            load=hw.sum("load"),
        ): "when the first plug of a house was active: sessions that end after 15 s of silence",
        hw.query(
            "tail",
            hw.tumbling("5 min"),
            where=hw.col("plug") == 0,
            median=hw.median("load"),
            p99=hw.quantile("load", 0.99),
        ): "exact median and 99th percentile of the loads of all first plugs, every 5 minutes",
        hw.query(
            "switches",
            hw.count_tumbling(1_000),
            where=hw.col("activity").is_not_null(),
            sensors=hw.count_distinct("sensor"),
            total=hw.sum("load"),
        ): "every 1,000 times that something was switched on or off: by how many sensors, and their exact sum",
        hw.query(
            "appliance", appliance, keys=["house"], used=hw.avg("load"), range=hw.value_range("load")
        ): "from an appliance's start marker to its end marker, at most 10 minutes, by house",
        hw.query(
            "peak",
            hw.tumbling("5 min"),
            keys=["house"],
            where=hw.col("load").is_not_null(),
            peak=hw.apply(peak_factor, "load"),
        ): "an aggregate of one's own: highest load / mean load",
    }
