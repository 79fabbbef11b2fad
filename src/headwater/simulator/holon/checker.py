"""What is seen of nodes without a root while they run: who has finished, which paths they took, what their checkpoints hold."""

from __future__ import annotations

from typing import Any

from headwater.language.windows import Custom
from headwater.node.holon.node import HolonNode
from headwater.protocols.actions import Checkpoint, Finished, Noted, SendMessage
from headwater.protocols.frames import open_frame
from headwater.protocols.peers.gossip_messages import PREFIX_DELTA, heard
from headwater.protocols.windowed_crdt import PrefixDelta
from headwater.simulator.checks.counts import Counts
from headwater.simulator.checks.memory import DECISION_BYTES, QUERY_BYTES, waits
from headwater.simulator.checks.truth import ViolationError
from headwater.simulator.holon.shared_output import SharedOutput
from headwater.simulator.holon.workload import HolonWorkload
from headwater.simulator.world.machine import Machine

#: What nodes tell of messages that make no sense: here all come from nodes.
DAMAGED = ("damaged", "unreadable")
#: Of so many checkpoints one is looked into.
CHECKPOINTS = 3
#: What a node may hold when all is quiet: itself, what it knows of a chain, and of an event whose windows may wait for ever.
BARE_BYTES, CHAIN_BYTES, EVENT_BYTES = 6000, 500, 400


class HolonChecker:
    """Watches all nodes of a run."""

    def __init__(self, counts: Counts, output: SharedOutput) -> None:
        self._counts, self._output = counts, output
        #: By machine the life in which its node said that everything is out.
        self._finished: dict[str, int] = {}
        self._checkpoint_count = 0
        self._checked = b""

    def after(self, time_ns: int, machine: Machine, event: Any, actions: list[Any], done: int) -> None:
        """A node was handed an event, and the first ``done`` of its actions were done."""
        for action in actions[:done]:
            match action:
                case Noted(what, detail):
                    if what.startswith(DAMAGED):
                        raise ViolationError(
                            f"{machine.name} tells of a {what}, but nothing damages frames here: {detail}"
                        )
                    self._counts[f"path: node {what}"] += 1
                case SendMessage(_, frame):
                    self._check_told(machine, frame)
                case Finished():
                    self._finished[machine.name] = machine.life
                case Checkpoint(data):
                    self._checkpoint_count += 1
                    if self._checkpoint_count % CHECKPOINTS == 0:
                        self._look_into(machine, data)

    def happened(self, time_ns: int, machine: str, what: str) -> None:
        """Faults are not checked."""

    def _check_told(self, machine: Machine, frame: bytes) -> None:
        """What rows stand for is told once they are there."""
        if frame is self._checked or open_frame(frame)[0] != PREFIX_DELTA:
            return
        self._checked = frame  # the same goes to all peers
        delta = heard(frame)
        assert isinstance(delta, PrefixDelta) and isinstance(machine.node, HolonNode)
        chain = self._output.chains.get(machine.node.plan.outputs[delta.chain])
        there = 0 if chain is None else len(chain.said)
        if delta.reach.rows > there:
            raise ViolationError(
                f"{machine.name} tells of {delta.chain} up to {delta.end}, which stands for {delta.reach.rows} rows: "
                f"{there} are there"
            )

    def _look_into(self, machine: Machine, data: bytes) -> None:
        """A checkpoint stands for no rows that a loss of power could take."""
        node = machine.maker.restored(data)
        assert isinstance(node, HolonNode)
        durable = self._output.durable()
        for chain, rows in node.known.needed().items():
            if rows > durable.get(chain, 0):
                raise ViolationError(
                    f"{machine.name} writes a checkpoint that stands for {rows} rows of {chain},"
                    f" of which {durable.get(chain, 0)} are safe"
                )

    def has_finished(self, machine: Machine) -> bool:
        """Whether its node said, in this life, that everything is out."""
        return self._finished.get(machine.name) == machine.life


def check_memory(machine: Machine, workload: HolonWorkload, decision_count: int) -> None:
    """Check that a node holds no more than it may when all is quiet: nothing of events that no window needs."""
    if machine.node is None:
        return
    queries, events = workload.queries, sum(map(len, workload.logs.values()))
    allowed = BARE_BYTES + QUERY_BYTES * (len(queries) + workload.is_tallied) + DECISION_BYTES * decision_count
    allowed += CHAIN_BYTES * len(workload.logs) * (1 + workload.is_tallied)
    # Custom windows that are cut by the order of events keep those.
    allowed += EVENT_BYTES * events * sum(waits(query) or isinstance(query.window, Custom) for query in queries)
    held = len(machine.node.snapshot())
    if held > allowed:
        raise ViolationError(f"{machine.name} holds {held:,} bytes when all is quiet; it may hold {allowed:,}")
