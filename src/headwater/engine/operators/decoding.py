"""Whatever is wrong with bytes that came from outside, the caller sees one kind of error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.errors import FormatError


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Turn what NumPy says about impossible sizes in damaged bytes into a `FormatError`.

    >>> with decoding("counts"):
    ...     raise MemoryError("4 PiB")
    Traceback (most recent call last):
    ...
    headwater.errors.FormatError: counts are damaged: 4 PiB
    """
    try:
        yield
    except FormatError:
        raise
    except (ValueError, OverflowError, MemoryError) as error:
        raise FormatError(f"{what} are damaged: {error}") from error


def check_version(what: str, version: int, known: int) -> None:
    """Refuse a version that this release does not read.

    >>> check_version("counts", 1, known=1)
    """
    if version != known:
        raise FormatError(f"{what} of version {version}; this release reads version {known}")
