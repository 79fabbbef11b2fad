"""Parts of pieces as one: nothing is combined, for each piece may have to be looked into; but heads and columns are paid once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.engine.intake.keys import KeyTable
from headwater.engine.operators.operator import Op
from headwater.engine.slices.store import concat_columns
from headwater.engine.wire.parts import HEAD_CHAIN, PiecesPart, RawRuns, key_count


@dataclass(slots=True)
class Alike:
    """Parts that can be one: of a family, with the same types of keys, partials and columns; who has none of these fits any."""

    family: int
    types: tuple[str, ...]
    partials: frozenset[Op] | None
    columns: tuple[tuple[str, str], ...] | None
    parts: list[PiecesPart]

    @classmethod
    def of(cls, part: PiecesPart) -> Alike:
        types = tuple(str(column.type) for column in part.key_columns)
        columns = None if part.raw is None else tuple((name, str(c.type)) for name, c in part.raw.columns.items())
        return cls(part.family, types, frozenset(part.partials) if len(part.piece) else None, columns, [part])

    def takes(self, other: Alike) -> bool:
        """Whether the other can come to it; then it does."""
        if (self.family, self.types) != (other.family, other.types):
            return False
        partials = {self.partials, other.partials} - {None}
        columns = {self.columns, other.columns} - {None}
        if len(partials) > 1 or len(columns) > 1:
            return False
        self.partials, self.columns = next(iter(partials), None), next(iter(columns), None)
        self.parts.extend(other.parts)
        return True


def merge_pieces(parts: Sequence[PiecesPart]) -> list[PiecesPart]:
    """As few parts as can be."""
    alike: list[Alike] = []
    for part in map(Alike.of, parts):
        if not any(known.takes(part) for known in alike):
            alike.append(part)
    return [_joined(known.parts) if len(known.parts) > 1 else known.parts[0] for known in alike]


def _joined(parts: list[PiecesPart]) -> PiecesPart:
    first = parts[0]
    chains = tuple(sorted({chain for part in parts for chain in part.chains}))
    places = {chain: place for place, chain in enumerate(chains)}
    heads = np.concatenate([part.heads for part in parts], axis=1)
    heads[HEAD_CHAIN] = [places[part.chains[at]] for part in parts for at in part.heads[HEAD_CHAIN].tolist()]
    before = np.cumsum([0, *(part.heads.shape[1] for part in parts)])
    pieces = np.cumsum([0, *(len(part.sizes) for part in parts)])
    table = KeyTable([str(i) for i in range(len(first.key_columns))])
    keys = [table.encode(part.key_columns, key_count(part.key_columns)) for part in parts]
    return PiecesPart(
        first.family,
        chains,
        heads,
        np.concatenate([part.head + start for part, start in zip(parts, before)]),
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([part.first for part in parts], axis=1),
        np.concatenate([part.last for part in parts], axis=1),
        np.concatenate([part.piece + start for part, start in zip(parts, pieces)]),
        table.columns(),
        np.concatenate([known[part.key] for part, known in zip(parts, keys)]).astype(np.int64),
        concat_columns([part.partials for part in parts if len(part.piece)] or [{}]),
        _joined_raw(
            [
                (part.raw, known[part.raw.key].astype(np.int64), int(start))
                for part, known, start in zip(parts, keys, before)
                if part.raw is not None
            ]
        ),
    )


def _joined_raw(runs: Sequence[tuple[RawRuns, np.ndarray, int]]) -> RawRuns | None:
    if not runs:
        return None
    names = runs[0][0].columns
    return RawRuns(
        np.concatenate([raw.sizes for raw, _, _ in runs]),
        np.concatenate([raw.places for raw, _, _ in runs], axis=1),
        np.concatenate([keys for _, keys, _ in runs]),
        {name: pa.concat_arrays([raw.columns[name] for raw, _, _ in runs]) for name in names},
        np.concatenate([raw.head + start for raw, _, start in runs]),
    )
