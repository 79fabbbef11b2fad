"""What is computed once per event: the description of a shared operator.

Aggregates name the operators they need; equal descriptions are computed once, however many aggregates and queries ask.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Op:
    """One shared operator: its kind, the column it reads (none for ``count``) and what else decides its partials.

    Kinds: count valid sum sumsq product min max run ordered first last hll ddsketch user.

    >>> Op("sum", "load") == Op("sum", "load"), Op("sum", "load") == Op("sum", "price")
    (True, False)
    """

    kind: str
    column: str | None = None
    parameter: Hashable = None
