"""The engine alone, in this process: push batches as they come, take rows as windows close.

Shows what a stream needs besides sums: events out of order, an event that comes too late for its window, one without a
time, and a restart in the middle. Needs nothing but headwater: `python examples/engine_alone.py`.
"""

import headwater as hw

SECOND = 1_000_000  # times are integers, in microseconds unless `unit=` says otherwise

queries = [
    # Every 10 s, by house. A row that is out is corrected for events up to 20 s late.
    hw.query("load", hw.tumbling("10 s"), keys=["house"], lateness="20 s", total=hw.sum("load")),
    # As long as a house sends something at least every 5 s.
    hw.query("active", hw.session("5 s"), keys=["house"], readings=hw.count(), middle=hw.median("load")),
]

# Batches in the order of their arrival: (second, house, load). Within 2 s they may be out of order.
arrivals = [
    [(0, "ash", 0.1), (2, "elm", 5.0), (1, "ash", 0.2), (4, "ash", 0.3)],
    [(11, "elm", 4.0), (13, "ash", 0.5), (12, "ash", 0.6)],
    [(3, "elm", 1.5), (25, "ash", 0.7), (None, "elm", 9.9)],  # 3 s comes 10 s late; one has no time at all
    [(38, "ash", 0.4)],
]


def batch(rows):
    """Events as a table: here a dictionary of columns; Arrow, pandas and Polars tables do as well."""
    times, houses, loads = zip(*rows)
    times = [None if time is None else time * SECOND for time in times]
    return {"time": times, "house": list(houses), "load": list(loads)}


def show(results):
    """One line for each row that came out."""
    for row in results:
        start, end = row["window_start"] / SECOND, row["window_end"] / SECOND
        active = f"{row['readings']} readings, median {row['middle']}"
        value = f"total {row['total']}" if row["query"] == "load" else active
        note = f"   (revision {row['revision']})" if row["revision"] else ""
        print(f"  {row['query']:<6} {row['house']}  {start:g} s to {end:g} s: {value}{note}")


engine = hw.Engine(queries, time="time", disorder="2 s")
for number, rows in enumerate(arrivals):
    print(f"batch {number}: {len(rows)} events")
    engine.push(batch(rows))
    show(engine.results())
    # All that the engine knows, as bytes: another process goes on exactly here.
    engine = hw.Engine.restore(engine.snapshot())

print("the stream ends")
engine.flush()
show(engine.results())

for row in engine.side_output().to_pylist():
    print(f"in no result of {row['query'] or 'any query'}: {row['event']}, because {row['reason']}")
for name, counts in engine.counters().items():
    print(f"{name}:", ", ".join(f"{what} {count}" for what, count in counts.items() if count))
