"""What the cluster and its processes say to each other, beside the links of the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headwater.edge.cluster.outcome import Emission, NodeOutcome
from headwater.edge.cluster.plan import ClusterPlan

# --- to a process ---


@dataclass(frozen=True)
class Share:
    """Run these nodes of a plan; ``addresses``: where to listen, for one that takes the place of another."""

    names: tuple[str, ...]
    plan: ClusterPlan
    addresses: dict[str, str] = field(default_factory=dict)
    #: Where the root keeps what it needs to be made again.
    journal: Path | None = None


@dataclass(frozen=True)
class Meet:
    """All nodes that others dial are there, at these addresses: start."""

    addresses: dict[str, str]


@dataclass(frozen=True)
class Begin:
    """Read, from this moment of the monotonic clock on."""

    begin_ns: int


@dataclass(frozen=True)
class FlushRoot:
    """Every leaf is through: the root is to end the stream if it has not."""


@dataclass(frozen=True)
class Stop:
    """The run is over: say what came of it, and wait for another."""


# --- from a process ---


@dataclass(frozen=True)
class Listening:
    """The nodes of this process are found here, those whom others dial; all its sources are open."""

    addresses: dict[str, str]


@dataclass(frozen=True)
class Ready:
    """Every node of this process knows its place: the root knows all its sources, and it them."""


@dataclass(frozen=True)
class NodeFinished:
    """The root: everything is out. A leaf: everything is read and accepted."""

    name: str


@dataclass(frozen=True)
class NodeStopped:
    """A leaf was refused, or another has its sources."""

    name: str
    reason: str


@dataclass(frozen=True)
class Failed:
    """An error has ended this process."""

    reason: str


@dataclass(frozen=True)
class Done:
    """What came of a run in this process."""

    nodes: Sequence[NodeOutcome]
    emissions: Sequence[Emission] = ()
    aside: Sequence[pa.Table] = ()
    finished_ns: int | None = None


Command = Share | Meet | Begin | FlushRoot | Stop
Report = Listening | Ready | NodeFinished | NodeStopped | Failed | Done
