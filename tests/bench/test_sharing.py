"""The experiments of the paper ask what they say, and every mode answers them alike."""

import pytest

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
