"""Trees under every fault: a hundred seeds on each commit, each compared with the reference.

A failure names its seed and the one command that replays it.
"""

import os
import subprocess
import sys
from random import Random

import pytest

from headwater.node import NodeSettings
from headwater.simulator import FAULTS, PLANTS, Counts, Options, Transcript, simulate, tree
from headwater.simulator.runner import Run
from headwater.simulator.seeds import WANTED, Summary, parse_seeds, simulate_many
from headwater.simulator.workloads.workload import draw_workload
from headwater.simulator.world.network import MS
from waiting import SECONDS_MAX

#: Blocks of seeds, so that several workers share them; each seed has a tree of its own.
BLOCKS = [range(first, first + 10) for first in range(0, 100, 10)]
MORE = [range(first, first + 10) for first in range(100, 200, 10)]
SHAPES = [(1, 1), (2, 1), (3, 1), (5, 1), (3, 2), (4, 2), (6, 2), (9, 2), (6, 3), (8, 3), (5, 4)]


def options_of(seed):
    leaves, height = SHAPES[seed % len(SHAPES)]
    return Options(seed, leaves, height)


@pytest.mark.parametrize(
    "block",
    [*BLOCKS, *(pytest.param(block, marks=pytest.mark.slow(reason="more of the same")) for block in MORE)],
    ids=str,
)
def test_nothing_wrong_ever_leaves_and_in_the_end_everything_is_out(block):
    summary = Summary()
    for seed in block:
        summary.add(simulate(options_of(seed)))
    failed = "\n\n".join(outcome.text() for outcome in summary.failures)
    assert not failed, failed


def test_every_fault_and_every_path_occurs():
    summary = Summary()
    for seed in range(1000, 1100):
        summary.add(simulate(options_of(seed)))
        if not summary.missing("all"):
            break
    assert summary.missing("all") == []


@pytest.mark.parametrize("plant", PLANTS)
def test_each_planted_mistake_is_found_within_200_seeds(plant):
    for seed in range(200):
        options = Options(seed, 4, 2, plant=plant)
        outcome = simulate(options)
        if outcome.failure is not None:
            assert f"--seed {seed}" in outcome.text() and f"--plant {plant}" in outcome.text()
            # It was the plant: the same run without it is fine.
            assert simulate(Options(seed, 4, 2)).failure is None
            return
    pytest.fail(f"{plant} was not found")


#: Runs that showed bugs of nodes, each with what was wrong.
FOUND = {
    Options(49, 3, 1, "jump"): "a root whose clock began anew with its machine never called a silent source idle",
    Options(
        142, 5, 4
    ): "a root walked through all time for a query that had stopped before it began, and never came back",
    Options(209, 16, 3): "a root whose clock had begun anew believed that a dead leaf had just been heard",
    Options(446, 16, 3): "events behind the end that a flush had given a source were late, and in time when read again",
    Options(
        43
    ): "a query added when all sources had ended, and one that was idle came back: edges beyond int64, a crash of Python",
}


@pytest.mark.parametrize("options", FOUND, ids=str)
def test_a_run_that_failed_once_passes(options):
    outcome = simulate(options)
    assert outcome.failure is None, f"{FOUND[options]}?\n{outcome.text()}"


def transcript_of(options):
    lines = []
    outcome = simulate(options, [Transcript(lines.append)])
    return [*lines, str(outcome.failure), *outcome.counts.lines()]


def test_the_same_seed_gives_the_same_transcript_under_any_hash_seed():
    program = (
        "import sys; from headwater.simulator import *\n"
        "for seed in (3, 7):\n"
        "    outcome = simulate(Options(seed, 5, 2), [Transcript(lambda line: print(line))])\n"
        "    print(outcome.failure, *outcome.counts.lines())\n"
    )
    outputs = []
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=True, timeout=SECONDS_MAX
        )
        outputs.append(run.stdout)
    assert outputs[0] == outputs[1] and outputs[0].count(b"\n") > 500


def test_another_seed_gives_another_transcript():
    assert transcript_of(Options(3, 3, 1)) != transcript_of(Options(4, 3, 1))


def test_watching_changes_nothing():
    assert transcript_of(Options(5, 4, 2))[-1] == simulate(Options(5, 4, 2)).counts.lines()[-1]


def test_without_faults_none_occurs():
    for seed in range(10):
        outcome = simulate(Options(seed, 4, 2, "none"))
        assert outcome.failure is None, outcome.text()
        assert not [name for name in outcome.counts if name.startswith("fault")]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_by_itself_does_no_harm(fault):
    for seed in range(20):
        outcome = simulate(Options(seed, 3, 2, fault))
        assert outcome.failure is None, outcome.text()
        struck = {name for name in outcome.counts if name.startswith("fault")}
        assert struck <= {f"fault: {fault}"}
        if struck:
            return
    pytest.fail(f"{fault} never struck")


def test_a_thousand_leaves_run_in_one_process():
    settings = NodeSettings(linger_ns=100 * MS, resend_ns=2000 * MS, hello_ns=2000 * MS, idle_ns=4000 * MS)
    run = Run.of(Options(1, 1000, 3, "none"), settings=settings)
    run.play()
    assert run.world.is_finished and run.truth.missing_count == 0
    assert len(run.world.machines) > 1100


def test_seeds_run_on_several_processes():
    outcomes = list(simulate_many(Options(0, 2, 1), parse_seeds("0..4"), jobs=2))
    assert sorted(outcome.options.seed for outcome in outcomes) == [0, 1, 2, 3]
    assert all(outcome.failure is None for outcome in outcomes)


def test_no_new_run_begins_when_the_time_is_over():
    assert list(simulate_many(Options(0, 2, 1), range(100), jobs=1, seconds=-1.0)) == []


def test_a_summary_names_what_never_occurred():
    summary = Summary(counts=Counts(dict.fromkeys(WANTED["tree"], 1) | {"fault: loss": 1}))
    assert summary.missing("loss") == [] and "fault: pause" in summary.missing("all")


def test_workloads_differ_in_size():
    sizes = {sum(map(len, draw_workload(Random(seed), tree(6, 2)).all_logs)) for seed in range(20)}
    assert min(sizes) < 120 and max(sizes) > 200
