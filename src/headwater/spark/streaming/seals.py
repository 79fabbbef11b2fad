"""Checksums of a checkpoint's files.

Some are JSON and begin with their own. Others are named elsewhere, together with theirs.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from headwater.logs import files
from headwater.spark.streaming.errors import CheckpointError, missing_part

_SEAL = b'{"checksum":"%s",'
_SEAL_SIZE = len(_SEAL % (b"0" * 32))
#: What is there only in files that have a checksum: one whose beginning is damaged cannot pass for one of before.
_SEALED = ("checksum", "owner", "is_sealed")


def sealed(tree: dict[str, Any]) -> bytes:
    """A JSON object that begins with the checksum of all that follows.

    >>> unsealed(Path("x"), sealed({"batch": 7, "owner": 1}))
    {'batch': 7, 'owner': 1}
    """
    return seal(json_bytes(tree))


def seal(data: bytes) -> bytes:
    """Bytes that begin with a JSON object, in which the checksum of everything behind it comes first from now on.

    >>> seal(b'{"owner":1}')
    b'{"checksum":"795aee503b4ef2fc48ff4ada17632948","owner":1}'
    """
    rest = data[1:]
    return _SEAL % fingerprint(rest).encode() + rest


def check_seal(place: Path, data: bytes, tree: object) -> bool:
    """Whether bytes that begin with this JSON object have a checksum; an error if they are not what was written."""
    if not isinstance(tree, dict) or not any(name in tree for name in _SEALED):
        return False
    if data[:_SEAL_SIZE] != _SEAL % fingerprint(data[_SEAL_SIZE:]).encode():
        raise CheckpointError(f"{place}: this part of the checkpoint is damaged: it does not match its checksum")
    return True


def unsealed(place: Path, data: bytes) -> Any:
    """What was sealed, or what a release wrote that knew no checksums; an error if it is not what was written."""
    try:
        tree = json.loads(data)
    except ValueError as error:
        raise CheckpointError(f"{place}: this part of the checkpoint is damaged: {error}") from error
    if check_seal(place, data, tree):
        del tree["checksum"]
        tree.pop("is_sealed", None)
    return tree


def create_named(place: Path, data: bytes) -> str:
    """Create a file that somebody will name by its hash, which is returned; it may be there already, if it is the same."""
    try:
        files.create(place, data)
    except FileExistsError:
        # Another attempt of the same task was here first; both compute the same.
        if place.read_bytes() != data:
            raise CheckpointError(f"{place}: two attempts of one batch left different files") from None
        files.sync_directory(place.parent)  # the other may have died before it did
    except FileNotFoundError as error:
        raise missing_part(place.parent) from error
    return fingerprint(data)


def read_named(place: Path, hash_: str) -> bytes:
    """What a file holds that was named by its hash, if it was; FileNotFoundError if it is missing."""
    data = place.read_bytes()
    if hash_ and fingerprint(data) != hash_:
        raise CheckpointError(
            f"{place}: this file is damaged: it is not the one that the checkpoint names; restore the checkpoint, or begin anew"
            " with another folder"
        )
    return data


def json_bytes(tree: dict[str, Any]) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


def fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
