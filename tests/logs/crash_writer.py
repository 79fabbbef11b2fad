"""The writer that `test_crash.py` kills: appends until it dies, and prints each acknowledged offset after the fact.

Run as ``python crash_writer.py LOG SEED FSYNC``.
"""

import os
import random
import sys

from headwater.logs import FsyncPolicy, Log, files
from logs.batches import rows


def write_in_pieces(descriptor: int, *parts: bytes | memoryview) -> None:
    """What a kernel may do with any write, but rarely does: so that a kill often falls, and a reader looks, into a record."""
    data = b"".join(parts)
    for at in range(0, len(data), 64):
        os.write(descriptor, data[at : at + 64])


def main() -> None:
    files.write_all = write_in_pieces
    path, seed, mode = sys.argv[1:]
    chance = random.Random(int(seed))
    policy = FsyncPolicy(mode, byte_count=5000)  # type: ignore[arg-type]
    writer = Log.open(path).writer(0, fsync=policy, segment_bytes=20_000)
    while True:
        # Again from a little before the end, as a caller does that does not know what counted.
        at = max(writer.start, writer.end - chance.randrange(4))
        writer.append(rows(at, chance.choice([1, 5, 40, 400])), at, arrival_ns=at)
        if chance.random() < 0.05:
            writer.retain(byte_count_max=200_000)
        os.write(1, b"%d\n" % writer.acknowledged)


if __name__ == "__main__":
    main()
