"""Spark as a host of nodes: leaves run where events are read, the root behind them. Here is only translation.

`files.py` finds files and shares them out, `formats/` reads them; `plan.py` is what the driver fixes before a job; `leaf.py`
and `root.py` drive the nodes inside tasks; `source.py` is the data source that Spark calls. `read` and `aggregate` are for users.
PySpark is imported only when one of these is called.
"""

from headwater.spark.aggregate import aggregate
from headwater.spark.dataframe_streams.aggregate import split_output
from headwater.spark.read import read, register

__all__ = ["aggregate", "read", "register", "split_output"]
