"""Leaves, relays and the root: engine and protocols joined, still without I/O. Hosts drive them with events and do their actions."""

from headwater.node.leaf import LeafNode
from headwater.node.relay import RelayNode
from headwater.node.root import RootNode
from headwater.node.settings import NodeSettings

__all__ = ["LeafNode", "NodeSettings", "RelayNode", "RootNode"]
