"""Parts of pieces as one: nothing is combined, for each piece may have to be looked into; but heads and columns are paid once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.engine.keys import KeyTable
from headwater.engine.parts import HEAD_CHAIN, PiecesPart, RawRuns, key_count
from headwater.engine.store import concat_columns


def likeness(part: PiecesPart) -> tuple[object, ...]:
    """Parts that are alike in this can be one, if they have anything to be unlike in."""
    types = tuple(str(column.type) for column in part.key_columns)
    columns = None if part.raw is None else tuple((name, str(c.type)) for name, c in part.raw.columns.items())
    return part.family, types, frozenset(part.partials), columns


def merge_pieces(parts: Sequence[PiecesPart]) -> list[PiecesPart]:
    """As few parts as can be."""
    alike: dict[tuple[object, ...], list[PiecesPart]] = {}
    for part in parts:
        alike.setdefault(likeness(part), []).append(part)
    return [_joined(some) if len(some) > 1 else some[0] for some in alike.values()]


def _joined(parts: list[PiecesPart]) -> PiecesPart:
    first = parts[0]
    chains = list(dict.fromkeys(chain for part in parts for chain in part.chains))
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
        concat_columns([part.partials for part in parts]) if first.partials else {},
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
