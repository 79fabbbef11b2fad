"""Plots of benchmarks: one picture per figure of a paper, a panel per metric, a line per mode; bars where there is one place."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headwater.bench.common.report import Report


class Point(NamedTuple):
    """What one mode showed at one place of one experiment's axis."""

    experiment: str
    metric: str
    unit: str
    mode: str
    x: float
    value: float


#: What stands above the picture of an experiment, and below its axis.
Titles = Mapping[str, tuple[str, str]]


def write(report: Report, points: Sequence[Point], titles: Titles, folder: Path, linear: Collection[str] = ()) -> None:
    """Write one PNG per experiment into ``folder``, and all points as one CSV file; metrics that are ``linear`` may be 0."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    experiments = list(dict.fromkeys(point.experiment for point in points))
    for experiment in experiments:
        mine = [point for point in points if point.experiment == experiment]
        metrics = list(dict.fromkeys(point.metric for point in mine))
        figure, panels = plt.subplots(
            1, len(metrics), figsize=(5 * len(metrics), 4), layout="constrained", squeeze=False
        )
        title, axis = titles[experiment]
        figure.suptitle(title)
        for metric, panel in zip(metrics, panels[0]):
            chosen = [point for point in mine if point.metric == metric]
            scale = "linear" if metric in linear else "log"
            panel.set(yscale=scale, ylabel=f"{metric} ({chosen[0].unit})")
            panel.grid(visible=True, which="major", alpha=0.3)
            if len({point.x for point in chosen}) == 1:
                panel.bar([point.mode for point in chosen], [point.value for point in chosen])
                continue
            for number, mode in enumerate(dict.fromkeys(point.mode for point in chosen)):
                line = [(point.x, point.value) for point in chosen if point.mode == mode]
                # Lines that lie on one another stay visible: each has a marker of its own.
                panel.plot(*zip(*line), marker="osD^v"[number % 5], markersize=max(3, 9 - number), label=mode)
            panel.set(xscale="log", xlabel=axis)
        if panels[0][0].get_legend_handles_labels()[0]:
            panels[0][0].legend()
        figure.savefig(folder / f"{experiment}.png", dpi=120)
        plt.close(figure)
    with (folder / f"{report.bench}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([Point._fields, *points])
    report.say(f"{len(experiments)} plots and {report.bench}.csv in {folder}")
