"""Count windows over nodes, in one process: the next 100,000 events of three leaves together, hardly any of them sent.

Which events are in such a window depends on all leaves. Each leaf sends partials of stretches of its own events, and
single events only around the place where a window is expected to end; the root proves every window before it emits it.
The nodes are the ones that run on Spark and between processes; here every message arrives at once.
"""

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.simulator import Counting, InstantTree

LEAVES = ("north", "south", "west")
EVENTS, BATCH = 1_000_000, 20_000

query = hw.query("next", hw.count_tumbling(100_000), total=hw.sum("load"), highest=hw.max("load"))


def readings(seed):
    """Events of one leaf in the order of time, with random gaps."""
    dice = np.random.default_rng(seed)
    times = np.cumsum(dice.integers(1, 20, EVENTS))
    return pa.table({"time": times, "load": np.round(dice.gamma(2.0, 50.0, EVENTS), 1)})


events = {leaf: readings(seed) for seed, leaf in enumerate(LEAVES)}

# The tree: three leaves below a root. `disorder=0`: each leaf's events come in order.
tree = InstantTree(dict.fromkeys(LEAVES, "root"), [query], disorder=0, counting=Counting("async"))
for leaf in LEAVES:
    tree.open(leaf, leaf, schema=events[leaf].schema)
for start in range(0, EVENTS, BATCH):
    for leaf in LEAVES:
        tree.push(leaf, events[leaf].slice(start, BATCH).combine_chunks().to_batches()[0])
tree.flush()
rows = tree.take_rows()

# The same on one machine that has all events, in the order of time and, at one time, of leaves.
together = pa.concat_tables(events[leaf] for leaf in LEAVES).sort_by("time")
alone = hw.run(together, [query]).table

# What nodes emit is in ticks and positions: the bounds of a count window are positions there.
print("positions                 total  highest")
for row in rows.slice(0, 4).to_pylist():
    place = f"{row['window_start']:>9,} .. {row['window_end']:>9,}"
    print(f"{place} {row['total']:>12,.1f} {row['highest']:>8,.1f}")
print("...")

sent, raw = sum(tree.bytes_up.values()) + sum(tree.bytes_down.values()), together.nbytes
asked = int(tree.root.count_report()["corrections"])
same = rows.select(["total", "highest"]).equals(alone.select(["total", "highest"]))
print(f"{len(rows)} windows over {len(together):,} events, the same as on one machine: {'yes' if same else 'no'}")
print(f"{sent:,} bytes on the links instead of {raw:,} ({sent / raw:.1%}); a leaf was asked again for {asked} windows")
