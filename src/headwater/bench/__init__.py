"""Benchmarks: one folder per question, peers measured in the same run, every figure beside the bound it must reach.

`engine.py`, `sharing.py` and the folders `tree`, `spark`, `stream`, `deco` and `holon` ask the questions. `common` has
what they share: events and queries, timing, DuckDB and Polars as peers, what needs a process of its own, plots, and the report of
the answers. `load` sends events on a schedule.
"""
