"""Spark's loop over micro-batches without Spark: the planner, leaves, root, checkpoint and sinks of `hw.stream` in one process.

A `Loop` is a stream with what outlives its drivers: the checkpoint, Spark's logs, the sinks. A `Driver` is one life of who runs
it; it can die at every moment. It needs Spark's Python classes, and no Java.
"""

from headwater.simulator.stream.driver import MOMENTS, STEPS, Driver, LogTakenError
from headwater.simulator.stream.frames import LocalFrame
from headwater.simulator.stream.listed_input import TABLES, ListedInput
from headwater.simulator.stream.loop import Loop
from headwater.simulator.stream.run import StoryRun
from headwater.simulator.stream.story import count_windows
from headwater.simulator.stream.turns import IDLE, Drivers, DriverThread
from headwater.simulator.world.file_faults import CrashError

__all__ = [
    "IDLE",
    "MOMENTS",
    "STEPS",
    "TABLES",
    "CrashError",
    "Driver",
    "DriverThread",
    "Drivers",
    "ListedInput",
    "LocalFrame",
    "LogTakenError",
    "Loop",
    "StoryRun",
    "count_windows",
]
