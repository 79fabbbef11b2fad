"""The experiments of the paper ask what they say, and every mode answers them alike."""

import pytest

import headwater as hw
from headwater.bench.common.workload import EVENTS_PER_SECOND
from headwater.bench.sharing import EXPERIMENTS, measure
from headwater.engine.modes import MODES


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_mode_produces_the_same_number_of_rows(experiment):
    queries = experiment.queries(4)
    measured = {mode: measure(queries, mode, EVENTS_PER_SECOND, seconds=0.0) for mode in MODES}
    assert len({result.rows for result in measured.values()}) == 1, measured
    assert measured["desis"].rows > 0


def test_sharing_saves_calculations():
    quantiles = next(experiment for experiment in EXPERIMENTS if experiment.name == "quantiles").queries(10)
    shared, alone = (measure(quantiles, mode, EVENTS_PER_SECOND, seconds=0.0) for mode in ("desis", "debucket"))
    assert alone.calculations >= 10 * shared.calculations


def test_there_are_four_modes_and_no_two_are_one_program():
    queries = [
        hw.query("slide", hw.sliding(20, 10), mean=hw.avg("v"), total=hw.sum("v")),
        hw.query("tumble", hw.tumbling(30), mean=hw.avg("v"), middle=hw.median("v")),
    ]
    ways = {}
    for mode in MODES:
        engine = hw.Engine(queries, mode=mode)
        engine.push({"time": list(range(100)), "v": [float(i) for i in range(100)]})
        engine.flush()
        kinds = {type(family.group).__name__ for family in engine._state.registry.families.values()}
        ways[mode] = frozenset(kinds), engine.statistics["calculations"]
    assert len(set(ways.values())) == len(MODES) == 4, ways
