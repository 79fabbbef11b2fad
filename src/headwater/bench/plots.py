"""Plots of ``headwater bench sharing``: one picture per figure of the paper, one line per mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Point:
    """What one mode showed at one place of one experiment's axis."""

    experiment: str
    metric: str
    unit: str
    mode: str
    x: int
    value: float


def draw(points: Sequence[Point], titles: dict[str, str], axes: dict[str, str], folder: Path) -> list[Path]:
    """Write one PNG per experiment and metric into ``folder`` and return their paths."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for experiment, metric in dict.fromkeys((point.experiment, point.metric) for point in points):
        chosen = [point for point in points if (point.experiment, point.metric) == (experiment, metric)]
        figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
        for mode in dict.fromkeys(point.mode for point in chosen):
            line = [(point.x, point.value) for point in chosen if point.mode == mode]
            axis.plot(*zip(*line), marker="o", label=mode)
        axis.set(xscale="log", yscale="log", title=titles[experiment], xlabel=axes[experiment])
        axis.set_ylabel(f"{metric.replace('_', ' ')} ({chosen[0].unit})")
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend()
        written.append(folder / f"{experiment}_{metric}.png")
        figure.savefig(written[-1], dpi=120)
        plt.close(figure)
    return written
