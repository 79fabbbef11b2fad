"""What nodes tell each other, in bytes: deltas against the whole state, and everything against the events themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import headwater as hw
from headwater.bench.common.report import Report, at_most
from headwater.bench.common.workload import EVENTS_PER_SECOND, KEY_COUNT, SECOND, SEED, EventColumns
from headwater.bench.holon.network import HolonNetwork
from headwater.bench.holon.process import planned
from headwater.node.holon.shared_program import SharedProgram
from headwater.protocols.windowed_crdt import delta_to_bytes

PARTITION = "p"
KEYS = 10_000
#: How many keys a delta touches.
TOUCHED = KEYS // 100
DELTAS = 50
NODES = 5
PARTITIONS = tuple(f"p{number}" for number in range(10))
SECONDS = 10
#: Before that, nodes find each other and share the partitions.
WARM_SECONDS = 3
SECOND_NS = 1_000_000_000


# --- a map ---


def touched_keys(report: Report) -> None:
    """A map of the latest value of 10,000 keys, of which each delta touches 100.

    The state is that of a prefix in its smallest form: every key once, in one part. A world holds the same keys and is larger.
    """
    whole, deltas, world = map_bytes(DELTAS // (5 if report.quick else 1))
    mean = sum(deltas) / len(deltas)
    note = f"{mean:,.0f} of {whole:,} bytes, mean of {len(deltas)} deltas; a world has {world:,}"
    report.add("delta_share", mean / whole, "ratio", at_most(0.05), note)


def map_bytes(count: int) -> tuple[int, list[int], int]:
    """The bytes of a delta with every key, of ``count`` deltas with a hundredth of them, and of the world behind all."""
    dice = np.random.default_rng([SEED, KEYS])
    query = hw.query("map", hw.tumbling("1 h"), keys=["key"], latest=hw.last("value"))
    schema = pa.schema({"time": pa.int64(), "key": pa.int64(), "value": pa.float64()})
    program = SharedProgram(planned(query, [PARTITION], schema))
    program.begin(PARTITION)

    def told(keys: Any, start: int) -> int:
        columns = [start + np.arange(len(keys)), keys, dice.standard_normal(len(keys))]
        deltas = [
            output.delta
            for output in program.take_in(PARTITION, program.next_index(PARTITION), _batch(columns, schema))
        ]
        if (rest := program.take_open(PARTITION)) is not None:
            deltas.append(rest.delta)
        for delta in deltas:
            program.levels[0].apply(delta)
        return sum(len(delta_to_bytes(delta)) for delta in deltas)

    whole = told(dice.permutation(KEYS), 0)
    deltas = [told(dice.choice(KEYS, TOUCHED, replace=False), SECOND * (second + 1)) for second in range(count)]
    # Two steps further: everything before is in the world.
    told(np.arange(1), 2 * 3600 * SECOND)
    list(program.advance())
    return whole, deltas, len(program.world())


def _batch(columns: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema)


# --- everything that travels ---


def gossip(report: Report) -> None:
    """Windows of a second by ten keys, 10,000 events/s of each partition: all that nodes send each other once they know who runs
    what, deltas and digests."""
    seconds = SECONDS // (5 if report.quick else 1)
    sent, event_bytes = gossip_bytes(seconds)
    note = f"{sent:,} of {event_bytes:,} bytes in {seconds} s, {NODES} nodes, {len(PARTITIONS)} partitions"
    report.add("gossip_share", sent / event_bytes, "ratio", at_most(0.03), note)


def gossip_bytes(seconds: int) -> tuple[int, int]:
    """The bytes of all frames of so many seconds, and those of their events."""
    aggregates: dict[str, Any] = {"n": hw.count(), "total": hw.sum("value"), "high": hw.max("value")}
    query = hw.query("q", hw.tumbling("1 s"), keys=["key"], **aggregates)
    table = EventColumns(EVENTS_PER_SECOND * (WARM_SECONDS + seconds + 1)).table("time", "key", "value")
    (events,) = table.combine_chunks().to_batches()
    network = HolonNetwork(planned(query, PARTITIONS, events.schema), NODES, dict.fromkeys(PARTITIONS, events))
    network.run(WARM_SECONDS * SECOND_NS)
    before, rows = network.sent, network.rows
    network.run((WARM_SECONDS + seconds) * SECOND_NS)
    if network.rows - rows != seconds * KEY_COUNT:
        raise RuntimeError(f"{network.rows - rows} rows came of {seconds} windows by {KEY_COUNT} keys")
    start = WARM_SECONDS * EVENTS_PER_SECOND
    share = [events.slice(start + number * EVENTS_PER_SECOND, EVENTS_PER_SECOND) for number in range(seconds)]
    return network.sent - before, len(PARTITIONS) * sum(map(_ipc_bytes, share))


def _ipc_bytes(batch: pa.RecordBatch) -> int:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return int(sink.getvalue().size)
