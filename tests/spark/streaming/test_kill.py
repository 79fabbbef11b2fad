"""Exactly once: kill -9 of the driver behind every step of a batch, of executors, and at any moment; nothing is lost or twice."""

import random

import pytest

from spark.streaming.chaos import run_rounds
from spark.streaming.kill_job import STEPS, Death
from spark.streaming.kills import AfterBatches, AtRandom, ExecutorKill, Story

pytestmark = pytest.mark.spark

#: For what runs with every change.
SHORT = {"events": 150, "batch_events": 60}


@pytest.mark.slow(reason="test_loop.py dies behind every step without Spark, and a real death is in the next test")
@pytest.mark.parametrize("count_scheme", ["async", "monitor"])
def test_a_driver_that_dies_twice_loses_and_repeats_nothing(processes, tmp_path, count_scheme):
    settings = {"source": "log", "sink": "folder", "root": "driver", "count_scheme": count_scheme, **SHORT}
    Story(processes, tmp_path / "story", seed=3, **settings).run([Death("rows", batch=2), Death("state", batch=2)])


def test_an_executor_and_then_the_driver_die_and_nothing_is_lost_or_repeated(processes, cluster, tmp_path):
    master, workers = cluster
    settings = {"master": master, "workers": workers, "source": "folder", "sink": "log", "root": "reducers"}
    Story(processes, tmp_path / "story", seed=4, **settings, **SHORT).run([ExecutorKill(batches=1, driver=2)])


@pytest.mark.slow(reason="seven lives of a driver each")
@pytest.mark.parametrize("root", ["driver", "reducers"])
@pytest.mark.parametrize(("source", "sink"), [("log", "log"), ("folder", "folder")])
def test_a_driver_that_dies_behind_every_step_loses_and_repeats_nothing(processes, tmp_path, root, source, sink):
    scheme = "monitor" if source == "log" else "async"
    story = Story(processes, tmp_path / "story", seed=5, source=source, sink=sink, root=root, count_scheme=scheme)
    story.run([Death(step, batch=1 + number % 3) for number, step in enumerate(STEPS)])


@pytest.mark.slow(reason="six lives of a driver each")
@pytest.mark.parametrize("root", ["driver", "reducers"])
@pytest.mark.parametrize("seed", range(3))
def test_deaths_at_any_moment_on_a_cluster_lose_and_repeat_nothing(processes, cluster, tmp_path, root, seed):
    dice = random.Random(seed)
    master, workers = cluster
    settings = {"master": master, "workers": workers, "source": dice.choice(["log", "folder"]), "root": root}
    kills = [
        AtRandom(dice.uniform(5, 20)),
        AfterBatches(dice.randint(1, 3), dice.uniform(0, 2)),
        ExecutorKill(dice.randint(0, 3), driver=dice.randint(0, 3)),
        Death(dice.choice(STEPS), dice.randint(1, 4)),
        ExecutorKill(dice.randint(0, 4)),
    ]
    Story(processes, tmp_path / "story", seed, sink=dice.choice(["log", "folder"]), **settings).run(kills)


@pytest.mark.slow(reason="minutes of chaos")
@pytest.mark.chaos
def test_rounds_of_chaos_say_what_the_reference_says():
    pytest.importorskip("pyspark")
    pytest.importorskip("psutil")
    lines: list[str] = []
    assert run_rounds(range(1000, 1005), lines.append) == 0, "\n".join(lines)
    assert lines[-1].endswith("5 as the reference says, 0 failed")
