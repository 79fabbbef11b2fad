"""Jobs: a source, queries and sinks in one file, checked as a whole and run from the command line.

`file/` is the file itself: what may stand in it, where each thing stands, and what is wrong with it. The rest runs what it
says: `sources.py` and `sinks.py` build both ends, `on_engine.py` and `on_spark.py` run what is between them, `progress.py` shows
it, and `command.py` is what the command line calls.
"""
