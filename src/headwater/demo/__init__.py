"""``make demo``: window queries of different kinds over generated smart-home events, on Spark or in this process.

`queries.py` asks, `houses.py` makes the events, `spark.py` and `engine.py` run, `tables.py` shows.
"""
