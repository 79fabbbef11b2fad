"""The shape of a tree: who is whose parent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ROOT = "root"


@dataclass(frozen=True, slots=True)
class Topology:
    """``parents`` of every node but the root; leaves and relays each from left to right."""

    leaves: tuple[str, ...]
    relays: tuple[str, ...]
    parents: Mapping[str, str]

    def links(self) -> list[tuple[str, str]]:
        """Every link as (child, parent)."""
        return list(self.parents.items())


def tree(leaf_count: int, height: int) -> Topology:
    """A tree of ``leaf_count`` leaves, each ``height`` links below the root; each level is wider by about the same factor.

    >>> tree(4, 2).parents
    {'relay-1-0': 'root', 'relay-1-1': 'root', 'leaf-0': 'relay-1-0', 'leaf-1': 'relay-1-0', 'leaf-2': 'relay-1-1',
     'leaf-3': 'relay-1-1'}
    >>> tree(3, 1).parents
    {'leaf-0': 'root', 'leaf-1': 'root', 'leaf-2': 'root'}
    """
    if leaf_count < 1 or height < 1:
        raise ValueError(f"a tree of {leaf_count} leaves and height {height}: both must be 1 or more")
    above = [ROOT]
    relays: list[str] = []
    parents: dict[str, str] = {}
    for level in range(1, height + 1):
        count = leaf_count if level == height else round(leaf_count ** (level / height))
        names = [f"leaf-{i}" if level == height else f"relay-{level}-{i}" for i in range(count)]
        parents |= {name: above[i * len(above) // count] for i, name in enumerate(names)}
        relays += names if level < height else []
        above = names
    return Topology(tuple(above), tuple(relays), parents)
