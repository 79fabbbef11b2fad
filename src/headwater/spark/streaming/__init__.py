"""Structured Streaming as a host of nodes: each micro-batch reads what its offset says, and offsets carry the root's messages.

The loop: Spark asks `source.py` for the next offset (`planning.py` decides it), its tasks run leaves (`leaf.py`), `runner.py`
takes their frames through the root (`host.py`, or `reducers.py` if several roots share the keys) into a sink, and last the
checkpoint gets the root's state and its directive, from which the next offset follows. Rooms: `start/` is what `hw.stream` does
before the first batch, `inputs/` and `kafka/` what is read, `sinks/` where rows go, `watch/` what tells of it.
"""
