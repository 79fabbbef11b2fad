"""Structured Streaming as a host of nodes: batch after batch, with the root's word to the leaves in the offsets.

`status.py` and `status_board.py` say how a stream is doing; `metrics.py`, `listener.py`, `batch_log.py` and `observing.py`
tell it to Prometheus, hear it from Spark, log it and show it in the terminal.
"""
