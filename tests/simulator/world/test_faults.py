"""Plans of faults: drawn from the seed, only those that were asked for, and nothing after healing."""

from random import Random

import pytest

from headwater.simulator.checks.counts import BORDER_FAULTS, FAULTS, Counts, chosen_faults
from headwater.simulator.world.faults import STRIKES, Faults, Strike, draw_plan
from headwater.simulator.world.machine import Machine, Maker
from headwater.simulator.world.network import MS, Quality
from headwater.simulator.world.topology import ROOT, tree
from headwater.simulator.world.world import World

UNTIL_NS = 1000 * MS


class Silent:
    """A node that does nothing."""

    def handle(self, event, now_ns):
        return []

    def snapshot(self):
        return b"memory"

    def check(self):
        pass


def machine(name, role="leaf"):
    return Machine(name, role, Maker(Silent, lambda data: Silent()), place=name.rstrip("b"))


def world_with(faults, seed):
    topology, world = tree(4, 2), World(seed)
    for name in (ROOT, *topology.relays, *topology.leaves):
        role = "root" if name == ROOT else name.split("-")[0]
        world.add(machine(name, role))
    plan = draw_plan(Random(seed), topology, frozenset(faults), UNTIL_NS)
    return world, Faults(world, dict(topology.parents), plan, lambda old: machine(f"{old.name}b"), 0), plan


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_has_only_what_was_asked_for(fault):
    for seed in range(20):
        _, _, plan = world_with([fault], seed)
        assert {strike.fault for strike in plan.strikes} <= {fault}
        assert bool(plan.clocks) == (fault in ("drift", "jump"))
        assert plan.quality.loss == 0 or fault == "loss"
        assert plan.quality.jitter_ns == 0 or fault == "delay"


def test_without_faults_there_is_no_plan():
    _, _, plan = world_with([], 5)
    assert plan.strikes == () and plan.quality == Quality() and not plan.bad_links and not plan.clocks


@pytest.mark.parametrize("fault", STRIKES)
@pytest.mark.parametrize("seed", range(5))
def test_after_healing_everybody_is_up_or_was_replaced(fault, seed):
    world, faults, plan = world_with([fault], seed)
    faults.begin()
    world.run(UNTIL_NS)
    faults.heal()
    world.run(UNTIL_NS * 10)
    assert all(machine.is_up != machine.is_gone for machine in world.machines.values() if not machine.is_replaced)
    assert all(machine.paused_until_ns <= UNTIL_NS for machine in world.machines.values())
    assert world.network.quality == Quality() and not world.network.cut and not world.network.one_way
    leaves = {strike.target for strike in plan.strikes if strike.target.startswith("leaf")}
    replaced = leaves if fault in ("replacement", "gone") else set()
    assert {name for name, machine in world.machines.items() if machine.is_replaced} == replaced
    assert {f"{name}b" for name in replaced} <= set(world.machines)


def test_a_seed_keeps_its_other_faults_when_those_of_borders_are_left_out():
    for seed in range(10):
        plans = [world_with(faults, seed)[2] for faults in (FAULTS, set(FAULTS) - set(BORDER_FAULTS))]
        whole, old = plans
        assert tuple(strike for strike in whole.strikes if strike.fault not in BORDER_FAULTS) == old.strikes
        assert whole.quality == old.quality and whole.bad_links == old.bad_links and not old.ends_early


def test_children_of_a_relay_that_is_gone_begin_anew_below_its_parent():
    world, faults, _ = world_with([], 0)
    lives = {name: one.life for name, one in world.machines.items()}
    relay = world.machines["relay-1-0"]
    STRIKES["gone"][1](faults, relay, Strike(0, "gone", relay.name, MS, 0))
    world.run(UNTIL_NS)
    moved = {name for name, parent in tree(4, 2).parents.items() if parent == relay.name}
    assert faults._parents == {**tree(4, 2).parents, **dict.fromkeys(moved, ROOT)}
    assert {name for name, one in world.machines.items() if one.life > lives[name]} == moved
    assert not relay.is_up and all(world.machines[name].is_up for name in moved)


def test_faults_are_named():
    assert chosen_faults("all") == set(FAULTS) and chosen_faults("none") == set()
    with pytest.raises(ValueError, match="there is no fault 'los'"):
        chosen_faults("los")


def test_counts_name_what_never_occurred():
    counts = Counts({"fault: loss": 1})
    assert counts.missing(["fault: loss", "path: x"]) == ["path: x"]
    assert counts.lines() == ["       1  fault: loss"]
