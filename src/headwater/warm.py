"""`headwater warm`: every kernel compiled ahead, so that no first query waits for it.

Kernels are compiled for the types with which they are called. So they are called: a small workload of every window, aggregate,
key and column type goes through the engine, through trees of nodes and through count windows over many nodes.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
import headwater.engine
from headwater.base.jit import compiled_forms
from headwater.engine.counting.selection import Keys, find_stretches
from headwater.engine.intake.many_sources import shares
from headwater.engine.wire.split import bucket_numbers
from headwater.simulator.runner import Options, simulate
from headwater.simulator.workloads.queries import cut_at_stops

#: Events of the two tables: what many events do is not what few do.
FEW, MANY = 300, 18_000
TIME_MAX = 2_000
#: Seeds of what is simulated; of count windows also one in which the root looks into events that hold a cut.
SEEDS = {"tree": range(12), "count-windows": (*range(12), 15)}


@dataclass(frozen=True, slots=True)
class Warmed:
    """What warming has done: how many kernels there are, those that nothing has called, and what was written where."""

    kernels: int
    missing: tuple[str, ...]
    compiled: int
    written: dict[str, int]

    @property
    def is_complete(self) -> bool:
        """Whether no later process has to compile."""
        return not self.missing and self.compiled == sum(self.written.values())

    def text(self) -> str:
        """
        >>> print(Warmed(180, (), 12, {"/app/.cache": 12}).text())
        180 kernels are ready; 12 were compiled
        12 in /app/.cache
        """
        lines = [f"{self.kernels} kernels are ready; {self.compiled} were compiled"]
        lines += [f"{count} in {folder}" for folder, count in sorted(self.written.items())]
        if self.compiled > sum(self.written.values()):
            lines.append("no folder could be written: set NUMBA_CACHE_DIR to one that can")
        lines += [f"{name}: not met; its first use will compile it" for name in self.missing]
        return "\n".join(lines)


def warm(on_step: Callable[[str, int, int], Any] = lambda *_: None) -> Warmed:
    """Compile every kernel that is not on disk yet; ``on_step`` is told what comes next, its number and of how many."""
    for module in pkgutil.walk_packages(headwater.engine.__path__, "headwater.engine."):
        import_module(module.name)
    few, many = events(FEW), events(MANY)
    steps: dict[str, Callable[[], Any]] = {
        **{f"{name} windows": partial(_window, window, few, many) for name, window in WINDOWS.items()},
        "one aggregate at a time": partial(_alone, many),
        "keys and times of all kinds": _rare,
        "trees of nodes": partial(_simulated, "tree"),
        "count windows over many nodes": partial(_simulated, "count-windows"),
        "nodes without a root": partial(_without_a_root, few, many),
    }
    for number, (what, run) in enumerate(steps.items()):
        on_step(what, number, len(steps))
        run()
    forms = compiled_forms()
    return Warmed(forms.kernels, forms.missing, forms.compiled, forms.written)


KEYS: tuple[tuple[str, ...], ...] = ((), ("k",), ("g",), ("k", "g"))
WINDOWS = {
    "tumbling": hw.tumbling(20),
    "sliding": hw.sliding(30, 7),
    "session": hw.session(3),
    "long session": hw.session(3, 40),
    "band": hw.band(100, 300),
    "punctuated": hw.punctuated(hw.col("mark") == "stop"),
    "punctuated, without markers": hw.punctuated(hw.col("mark") == "stop", include_markers=False, max_duration=50),
    "between": hw.between(hw.col("mark") == "start", hw.col("mark") == "stop", 50),
    "custom": hw.custom(cut_at_stops, 5, columns=["mark"]),
    "count": hw.count_tumbling(50),
    "sliding count": hw.count_sliding(40, 9),
    "count per key": hw.count_sliding(12, 5, per="key"),
}
NUMBERS, ORDERED = ("i", "x", "d"), ("i", "x", "d", "s")
AGGREGATES: dict[str, Any] = {
    "count": hw.count(),
    **{
        f"{make.__name__}_{column}": make(column)
        for make, columns in (
            (hw.sum, NUMBERS),
            (hw.avg, NUMBERS),
            (hw.value_range, NUMBERS),
            (hw.median, NUMBERS),
            (hw.variance, NUMBERS),
            (hw.product, ("u", "w")),
            (hw.geometric_mean, ("p",)),
            (hw.min, ORDERED),
            (hw.max, ORDERED),
            (hw.mode, ORDERED),
            (hw.count_distinct, ORDERED),
            (hw.first, ORDERED),
            (hw.last, ORDERED),
            (hw.collect, ORDERED),
            (hw.top, ORDERED),
            (hw.distinct, ORDERED),
            (hw.approx_distinct, ("i", "s")),
        )
        for column in columns
    },
    "ties": hw.top("i", 2, ties=True, keep=["s"]),
    "rows": hw.rows(["i", "s"]),
    "p99_x": hw.approx_quantile("p", 0.99),
    "upper_x": hw.quantile("x", 0.9, "upper"),
    "p90_x": hw.quantile("x", 0.9),
    "p90_i": hw.quantile("i", 0.9),
    "count_x": hw.count("x"),
}


def events(count: int) -> pa.Table:
    """Events of every column type that kernels are compiled for; most come in order, and some values are missing."""
    dice = np.random.default_rng(count)
    times = np.sort(dice.integers(0, TIME_MAX, count)) - np.where(dice.random(count) < 0.05, 15, 0)
    whole = dice.integers(-50, 100, count)
    columns = {
        "time": pa.array(times),
        "k": pa.array([f"key {number}" for number in dice.integers(0, 5, count)]).dictionary_encode(),
        "g": pa.array(dice.integers(0, 4, count)),
        "i": pa.array(whole, mask=dice.random(count) < 0.02),
        "x": pa.array(whole * 0.1, mask=dice.random(count) < 0.02),
        "p": pa.array(np.abs(whole) + 1.0),
        "u": pa.array(1 - 2 * (whole % 2)),
        "w": pa.array(np.where(whole % 2, 0.5, 2.0)),
        "d": pa.array(whole).cast(pa.decimal128(24, 2)),
        "s": pa.array([f"{number % 7}" for number in whole]),
        "mark": pa.array(dice.choice(["none"] * 40 + ["start", "stop"], count)),
    }
    return pa.table(columns)


def _window(window: Any, few: pa.Table, many: pa.Table) -> None:
    """A kind of window with all aggregates: a whole table at once; and a stream with late events, taken up from its snapshot."""
    for keys in KEYS:
        sums = hw.query("q", window, keys=keys, count=hw.count(), sum=hw.sum("x"))
        for table in (few, many):
            hw.run(table, [sums])
        asked = [
            hw.query("all", window, keys=keys, lateness=20, **AGGREGATES),
            hw.query("distinct", window, keys=keys, where=hw.col("i") > 0, distinct="i", sum=hw.sum("i")),
        ]
        hw.run(few, asked)
        engine = hw.Engine(asked, disorder=5)
        for number, batch in enumerate(few.to_batches(max_chunksize=60)):
            engine.push(batch, source="ab"[number % 2])
            engine = hw.Engine.restore(engine.snapshot())
            engine.results()
        engine.flush()
        engine.results()


def _alone(many: pa.Table) -> None:
    """Each aggregate over many events, in windows that overlap little and much."""
    for aggregation in AGGREGATES.values():
        for keys in KEYS[:2]:
            hw.run(many, [hw.query("q", hw.sliding(200, 100), keys=keys, value=aggregation)])
        hw.run(many, [hw.query("q", hw.sliding(500, 2), value=aggregation)])
    for keys in KEYS[:2]:
        for column in NUMBERS:
            several = {"low": hw.quantile(column, 0.1), "middle": hw.median(column), "high": hw.quantile(column, 0.9)}
            hw.run(many, [hw.query("q", hw.sliding(200, 100), keys=keys, **several)])  # type: ignore[arg-type]


def _rare() -> None:
    """What takes more than some events to meet: plain columns in order, very many keys, times far apart, and the like."""
    at = np.arange(MANY)
    plain = pa.table({"time": at // 20, "few": at % 7, "many": at % (MANY // 2), "whole": at % 100, "x": at / 8})
    for keys in ("few", "many"):
        for column in ("whole", "x"):
            query = hw.query("q", hw.tumbling(TIME_MAX), keys=keys, sum=hw.sum(column), top=hw.max(column))
            twin = hw.query("twin", hw.tumbling(TIME_MAX), keys=keys, sum=hw.sum(column))
            hw.run(plain, [query, twin])
            engine = hw.Engine([query])
            for _ in range(2):
                engine.push(plain)
    apart = pa.table({"time": at[:5_000] * 10**9, "many": at[:5_000], "x": at[:5_000] / 8})
    hw.run(apart, [hw.query("q", hw.tumbling(10), keys="many", sum=hw.sum("x"))])
    for per in ("all", "key"):
        engine = hw.Engine([hw.query("q", hw.count_tumbling(10 * MANY, per=per), keys="many", sum=hw.sum("x"))])
        for batch in plain.to_batches(max_chunksize=MANY // 2):
            engine.push(batch)
            engine.advance(batch["time"][-1].as_py() + 1)
    bucket_numbers([pa.array(["a"]), pa.array([1]), pa.array([0.5])], 2)
    one = np.zeros(1, np.int64)
    shares(one, one, one, 0, one, one)
    find_stretches(one, 0, one, Keys(one, one, one))


def _without_a_root(few: pa.Table, many: pa.Table) -> None:
    asked = hw.query("q", hw.tumbling(10), keys=["k"], sum=hw.sum("x"), n=hw.count())
    for table in (few, many, few.sort_by("time"), many.sort_by("time")):
        hw.holon.run([asked], {"p": table}, disorder=50)


def _simulated(scenario: str) -> None:
    height = 2 if scenario == "tree" else 1
    for seed in SEEDS[scenario]:
        verdict = simulate(Options(seed, leaves=4, height=height, scenario=scenario))
        assert verdict.failure is None, verdict.text()
