"""Known mistakes of nodes without a root, planted like those of trees: one for each of their invariants, and some more."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

from headwater.node.holon.decided_steps import DecidedSteps
from headwater.node.holon.duties import gossip
from headwater.node.holon.duties.checkpoints import Checkpoints
from headwater.node.holon.duties.knowledge import Knowledge
from headwater.node.holon.duties.written_rows import WrittenRows
from headwater.node.holon.partition import PartitionRunner
from headwater.node.holon.replica import Replica
from headwater.node.holon.shared_program import SharedProgram
from headwater.protocols.actions import Checkpoint
from headwater.protocols.windowed_crdt import Prefix, PrefixDelta, StepPart, Version
from headwater.simulator.plants.planting import Plant, instead


def _bare(right: Any, told: gossip.Gossip, delta: PrefixDelta) -> None:
    right(told, replace(delta, parts=()))


def _last_step_only(right: Any, runner: PartitionRunner, batch: Any) -> Any:
    highest, ends = right(runner, batch)
    return highest, ends[-1:]


def _unsynced(_right: Any, checkpoints: Checkpoints, _durable: Mapping[str, int]) -> Checkpoint | None:
    candidate, checkpoints._candidate = checkpoints._candidate, None
    return None if candidate is None else Checkpoint(candidate[0])


def _whatever_comes(right: Any, known: Knowledge, chain: str, prefix: Prefix) -> Any:
    mine = known.program.prefix(chain)
    level = known.program.level_of(chain)
    if mine is None or level is None or prefix.version >= mine.version or prefix.base > known.executed[level]:
        return right(known, chain, prefix)
    known.program.levels[level].prefixes.chains[chain] = prefix
    return None


def _one_behind(right: Any, prefix: Prefix, step: int) -> StepPart | None:
    part: StepPart | None = right(prefix, step)
    is_near = part is None and prefix.version.at > 0 and prefix.step == step - 1
    return StepPart(step, step, prefix.version.at, prefix.reach) if is_near else part


def _all_passed(_right: Any, program: SharedProgram, level: int, *_: Any) -> int:
    return program.levels[level].steps.count


def _again(right: Any, known: Knowledge, delta: PrefixDelta) -> str | None:
    """What another runner made of some of the same events is added to what is known."""
    objection: str | None = right(known, delta)
    level = known.program.level_of(delta.chain)
    if objection == "overlap" and level is not None:
        chains = known.program.levels[level].prefixes.chains
        prefix = chains[delta.chain]
        chains[delta.chain] = replace(prefix, open=(*prefix.open, *delta.parts))
    return objection


def _without_decisions() -> AbstractContextManager[Any]:
    """Prefixes are in the order of their indexes alone."""

    def place(version: Version) -> tuple[int, int]:
        return version.generation, version.at

    stack = ExitStack()
    for name in ("__lt__", "__le__", "__gt__", "__ge__"):
        compare = getattr(tuple, name)
        wrong = lambda one, other, compare=compare: compare(place(one), place(other))  # noqa: E731
        stack.enter_context(mock.patch.object(Version, name, wrong, create=True))
    return stack


def _lagging(right: Any, decided: DecidedSteps, _: Mapping[str, int], read: Mapping[str, int]) -> Any:
    """Whoever is behind is taken for silent."""
    prefixes = decided.replica.prefixes.chains
    return right(
        decided, {chain: max(prefix.version.at, read.get(chain, 0)) for chain, prefix in prefixes.items()}, read
    )


def _safe_at_once(right: Any, rows: WrittenRows, chain: str, end: int) -> None:
    right(rows, chain, end)
    rows.synced({chain: end})


HOLON_PLANTS: dict[str, Plant] = {
    # Progress is told without the parts that it stands for.
    "progress-without-parts": instead(gossip.Gossip, "made", _bare),
    # A delta goes over several steps, and all that it holds is in the last.
    "delta-across-steps": instead(PartitionRunner, "_look", _last_step_only),
    # What rows stand for is told before these are there.
    "position-before-rows": instead(WrittenRows, "_is_there", lambda right, *_: True),
    # A checkpoint is written before the rows that it stands for are safe.
    "checkpoint-before-sync": instead(Checkpoints, "release", _unsynced),
    # A prefix is replaced by a shorter one.
    "shorter-prefix-taken": instead(Knowledge, "take_prefix", _whatever_comes),
    # A step is executed though one chain has not reached it yet.
    "step-before-its-cuts": instead(Prefix, "covering", _one_behind),
    # Rows of steps are forgotten though a stage has still to take them.
    "rows-forgotten": instead(SharedProgram, "_passed", _all_passed),
    # Steps are executed that no entry has closed.
    "step-without-an-entry": lambda: mock.patch.object(DecidedSteps, "_needs_entries", property(lambda _: False)),
    # What two nodes make of the same events counts twice.
    "state-keyed-by-node": instead(Knowledge, "take", _again),
    # A longer prefix counts more than a decision about its chain.
    "decision-ignored": _without_decisions,
    # A partition is left out because it is behind, and not because it is silent.
    "idle-by-lag": instead(DecidedSteps, "closing", _lagging),
    # What was appended is taken for safe.
    "checkpoint-beyond-durable": instead(WrittenRows, "appended", _safe_at_once),
    # Parts of steps that all have executed are kept for ever.
    "memory-grows": instead(Replica, "forget", lambda right, *_: None),
}
