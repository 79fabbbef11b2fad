"""Count windows over many nodes under every fault, in every exact scheme; which events a window holds is checked too.

`headwater simulate count-windows --seeds 0..500` looks further. A failure names its seed and the command that replays it.
"""

import os
import subprocess
import sys
from random import Random

import pytest

from headwater.base.count_limits import CountLimits
from headwater.language.windows import CountWindow
from headwater.node import NodeSettings
from headwater.simulator import COUNT_PLANTS, Options, Transcript, simulate, tree
from headwater.simulator.checks.counts import LINK_FAULTS, MACHINE_FAULTS
from headwater.simulator.runner import Run
from headwater.simulator.scenarios import EXACT_SCHEMES, draw_count_windows
from headwater.simulator.seeds import WANTED, Summary
from headwater.simulator.workloads.count_queries import MEMBER, MEMBER_BITS
from headwater.simulator.workloads.count_workload import draw_count_workload
from waiting import SECONDS_MAX

BLOCKS = [range(first, first + 5) for first in range(0, 20, 5)]


def options_of(seed, **more):
    return Options(seed, 6, scenario="count-windows", **more)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_count_window_holds_the_events_it_should_under_faults(block):
    summary = Summary()
    for seed in block:
        summary.add(simulate(options_of(seed)))
    failed = "\n\n".join(outcome.text() for outcome in summary.failures)
    assert not failed, failed


def test_every_fault_path_scheme_and_kind_of_window_occurs():
    summary = Summary()
    for seed in range(1000, 1060):
        summary.add(simulate(Options(seed, 4, scenario="count-windows")))
        if not summary.missing("all", "count-windows"):
            break
    assert summary.missing("all", "count-windows") == [] and not summary.failures


@pytest.mark.parametrize("plant", COUNT_PLANTS)
def test_each_planted_mistake_shows_in_some_row_within_200_seeds(plant):
    for seed in range(200):
        outcome = simulate(options_of(seed, plant=plant))
        if outcome.failure is not None and "raised" not in outcome.failure:
            assert outcome.options.command == (
                f"headwater replay count-windows --seed {seed} --leaves 6 --faults all --plant {plant}"
            )
            # It was the plant: the same run without it is fine.
            assert simulate(options_of(seed)).failure is None
            return
    pytest.fail(f"{plant} was not found")


#: Seeds that showed bugs, each with what was wrong.
FOUND = {
    12: "a leaf that had seen no event named no types of keys, and its deltas were refused for ever",
    15: "of a single source all was said to be sent, and events at its watermark counted twice after a crash",
    17: "leaves were told to wait until after the end of time",
    18: "an event of a source that joined late lay between those of an older piece, which could not be found again",
    144: "a relay put parts in another order, and a chain seemed to be less far than it was: events counted twice",
    357: "a root that came back did not know the names of sources before the next delta",
    5092: "events were accepted while others were read again, and taken for ones in pieces by who came after",
    35: "with the removal of any query also the marks went from which count windows read again",
}


#: The same under faults of disks, clocks and links that came later.
FOUND_AT_BORDERS = {
    131: "a root whose clock had begun anew believed that a dead leaf had just been heard",
    155: "events of a source that joined later were taken for those of a piece that were not in memory any more",
    296: "the checker did not see that a silent source would be waited for once another had ended",
    323: "the checker did not wait until another had the chain of a leaf that was asked",
}


@pytest.mark.parametrize("seed", FOUND_AT_BORDERS, ids=str)
def test_a_seed_that_failed_once_at_the_borders_passes(seed):
    outcome = simulate(Options(seed, 8, scenario="count-windows"))
    assert outcome.failure is None, f"{FOUND_AT_BORDERS[seed]}?\n{outcome.text()}"


@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_a_seed_that_failed_once_passes(seed):
    # With the faults there were when it did.
    faults = ",".join(LINK_FAULTS + MACHINE_FAULTS)
    outcome = simulate(Options(seed, 8, faults=faults, scenario="count-windows"))
    assert outcome.failure is None, f"{FOUND[seed]}?\n{outcome.text()}"


def test_the_same_seed_gives_the_same_transcript_under_any_hash_seed():
    program = (
        "from headwater.simulator import *\n"
        "outcome = simulate(Options(3, 5, scenario='count-windows'), [Transcript(lambda line: print(line))])\n"
        "print(outcome.failure, *outcome.counts.lines())\n"
    )
    outputs = []
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=True, timeout=SECONDS_MAX
        )
        outputs.append(run.stdout)
    assert outputs[0] == outputs[1] and outputs[0].count(b"\n") > 200


def test_the_same_seed_twice_gives_the_same_transcript():
    first, second = [], []
    for lines in (first, second):
        simulate(options_of(2), [Transcript(lines.append)])
    assert first == second


def test_without_faults_none_occurs():
    for seed in range(2):
        outcome = simulate(options_of(seed, faults="none"))
        assert outcome.failure is None, outcome.text()
        assert not [name for name in outcome.counts if name.startswith("fault")]


def test_ids_tell_events_apart_and_every_count_window_adds_them_up():
    for seed in range(20):
        workload, _ = draw_count_workload(Random(seed), tree(5, 1), 300)
        ids = [row[MEMBER] for log in workload.all_logs for row in log.rows]
        assert len(set(ids)) == len(ids) and max(ids) < 2**MEMBER_BITS
        for query in workload.queries:
            assert not isinstance(query.window, CountWindow) or query.aggregates[0][1].column == MEMBER


def test_seeds_draw_every_scheme_but_the_one_that_is_not_exact():
    drawn = {draw_count_windows(Random(seed), 3, 1).counting.scheme for seed in range(60)}
    assert drawn == set(EXACT_SCHEMES) and "approx" not in drawn


def test_limits_that_a_seed_draws_are_those_of_every_node():
    run = Run.of(options_of(0))
    limits = run.scenario.limits
    assert limits != CountLimits() and run.settings.counts == limits
    assert NodeSettings.restored(run.settings.state()) == run.settings
    assert len(NodeSettings().state()) == len(run.settings.state()) - 1


def test_what_never_occurred_is_named():
    summary = Summary()
    assert set(summary.missing("all", "count-windows")) > set(WANTED["count-windows"])
    assert "drawn: scheme sync" in summary.missing("all", "count-windows")
    assert summary.missing("loss", "count-windows") == ["fault: loss"]
