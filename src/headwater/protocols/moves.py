"""What observers are told of sources that moved; most often nobody asks."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.base.arrays import Int64Array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Moves(Mapping[str, list[int]]):
    """By the name of each source of these numbers its row; put together when somebody looks.

    >>> import numpy as np
    >>> Moves(["a", "b"], np.array([1]), np.array([[0, 5, 99]]))
    {'b': [0, 5, 99]}
    """

    names: Sequence[str]
    numbers: Int64Array
    rows: Int64Array

    def apart(self) -> dict[str, list[int]]:
        return dict(zip([self.names[number] for number in self.numbers.tolist()], self.rows.tolist()))

    def __getitem__(self, name: str) -> list[int]:
        return self.apart()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.apart())

    def __len__(self) -> int:
        return len(self.numbers)

    def items(self) -> ItemsView[str, list[int]]:
        return self.apart().items()

    def __repr__(self) -> str:
        return repr(self.apart())
