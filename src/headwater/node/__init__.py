"""Leaves, relays and the root: engine and protocols joined, still without I/O. Hosts bring events and do the actions."""

from headwater.node.leaf import LeafNode
from headwater.node.node import Node
from headwater.node.relay import RelayNode
from headwater.node.root import RootNode
from headwater.node.settings import NodeSettings

__all__ = ["LeafNode", "Node", "NodeSettings", "RelayNode", "RootNode"]
