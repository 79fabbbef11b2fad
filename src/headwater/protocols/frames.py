"""Frames: a fixed header in front of a body, so that a reader knows what it has, whether it is whole, and whether to take it.

There is one error for all that can be wrong with a frame, `FrameError`, and it says what.
"""

from __future__ import annotations

import struct
import zlib

from headwater.base.packing import Bytes
from headwater.errors import FormatError

MAGIC = b"HW"
VERSION = 2
#: Longer frames are refused before they are looked at: a length that was made up must not cost memory.
FRAME_BYTES_MAX = 1 << 28
#: magic, version, kind, length of the body, checksum of the body
HEADER = struct.Struct("<2sBBII")


class FrameError(FormatError):
    """These bytes are no frame that this release can read."""


def frame(kind: int, body: bytes, bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """A frame around a body, which is refused if it is longer than ``bytes_max``.

    >>> len(frame(1, b"abc")) == HEADER.size + 3
    True
    """
    if len(body) > bytes_max:
        raise FrameError(f"a frame of {len(body)} bytes is longer than the {bytes_max} that are allowed")
    return HEADER.pack(MAGIC, VERSION, kind, len(body), zlib.crc32(body)) + body


def open_frame(data: Bytes, bytes_max: int = FRAME_BYTES_MAX) -> tuple[int, memoryview]:
    """The kind and the body of a frame.

    >>> kind, body = open_frame(frame(7, b"abc"))
    >>> kind, bytes(body)
    (7, b'abc')
    """
    if len(data) < HEADER.size:
        raise FrameError(f"a frame begins with a header of {HEADER.size} bytes; here are {len(data)}")
    magic, version, kind, length, checksum = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise FrameError("these bytes are no headwater frame")
    if version != VERSION:
        raise FrameError(f"this frame has version {version}; this release reads version {VERSION}")
    if length > bytes_max:
        raise FrameError(f"a frame of {length} bytes is longer than the {bytes_max} that are allowed")
    body = memoryview(data).cast("B")[HEADER.size :]
    if len(body) != length:
        raise FrameError(f"this frame should have {length} bytes behind its header and has {len(body)}")
    if zlib.crc32(body) != checksum:
        raise FrameError("this frame is damaged: its checksum does not match")
    return kind, body
