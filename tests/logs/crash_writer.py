"""The writer that `test_crash.py` kills: appends until it dies, and prints each acknowledged offset after the fact.

Run as ``python crash_writer.py LOG SEED FSYNC``.
"""

import os
import random
import sys

from batches import rows

from headwater.logs import FsyncPolicy, Log


def main() -> None:
    path, seed, mode = sys.argv[1:]
    chance = random.Random(int(seed))
    policy = FsyncPolicy(mode, byte_count=5000)  # type: ignore[arg-type]
    writer = Log.open(path).writer(0, fsync=policy, segment_bytes=20_000)
    while True:
        # Again from a little before the end, as a caller does that does not know what counted.
        at = max(writer.start, writer.end - chance.randrange(4))
        writer.append(rows(at, chance.choice([1, 5, 40, 400])), at, arrival=at)
        if chance.random() < 0.05:
            writer.retain(byte_count_max=200_000)
        os.write(1, b"%d\n" % writer.acknowledged)


if __name__ == "__main__":
    main()
