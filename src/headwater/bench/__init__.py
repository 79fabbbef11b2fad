"""Benchmarks: one file per question, peers measured in the same run, every figure beside the bound it must reach.

``workload`` makes the events and the queries, ``engine``, ``sharing``, ``tree`` and ``spark`` ask the questions, ``peers`` runs
DuckDB and Polars, ``children`` measures what needs a process of its own, and ``report`` shows the answers.
"""
