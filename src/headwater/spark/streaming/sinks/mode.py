"""How a table takes rows: all of them, or the last revision of every window."""

from __future__ import annotations

from typing import Final, Literal

from headwater.errors import DataError

Mode = Literal["append", "upsert"]
MODES: Final = ("append", "upsert")


def check_mode(mode: object) -> None:
    """DataError if it is none of them."""
    if mode not in MODES:
        raise DataError(
            f"mode is {mode!r}: give 'append' for all rows, or 'upsert' for the last revision of every window"
        )
