"""Known mistakes of nodes without a root, planted like those of trees."""

from __future__ import annotations

from headwater.simulator.plants.planting import Plant

HOLON_PLANTS: dict[str, Plant] = {}
