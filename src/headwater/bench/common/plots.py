"""Plots of benchmarks: one picture per figure of a paper, a panel per metric, a line per mode; bars where there is one place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Point:
    """What one mode showed at one place of one experiment's axis."""

    experiment: str
    metric: str
    unit: str
    mode: str
    x: float
    value: float


def draw(
    points: Sequence[Point], titles: dict[str, str], axes: dict[str, str], folder: Path, linear: Collection[str] = ()
) -> list[Path]:
    """Write one PNG per experiment into ``folder`` and return their paths; metrics that are ``linear`` may be 0."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for experiment in dict.fromkeys(point.experiment for point in points):
        mine = [point for point in points if point.experiment == experiment]
        metrics = list(dict.fromkeys(point.metric for point in mine))
        figure, panels = plt.subplots(
            1, len(metrics), figsize=(5 * len(metrics), 4), layout="constrained", squeeze=False
        )
        figure.suptitle(titles[experiment])
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
            panel.set(xscale="log", xlabel=axes[experiment])
        if panels[0][0].get_legend_handles_labels()[0]:
            panels[0][0].legend()
        written.append(folder / f"{experiment}.png")
        figure.savefig(written[-1], dpi=120)
        plt.close(figure)
    return written
