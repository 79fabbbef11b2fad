"""Spark's processes as tests start them, and executors that can be killed."""

import os
import signal
import subprocess
from pathlib import Path

from headwater.bench.stream.cluster import SparkProcesses, executors
from waiting import wait_until

TESTS = Path(__file__).parent.parent


class Processes(SparkProcesses):
    """Processes of a test, each in a group of its own; none outlives it."""

    def __init__(self, folder: Path) -> None:
        # Half a dozen JVMs that live for seconds: they need not compile well.
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        super().__init__(folder, PYTHONPATH=str(TESTS), JAVA_TOOL_OPTIONS=quick)

    def logs(self) -> str:
        texts = {name: (self.folder / f"{name}.log").read_text()[-3000:] for name in self.started}
        return "\n".join(f"--- {name}\n{text}" for name, text in texts.items())


def start_cluster(processes: Processes) -> tuple[str, list[subprocess.Popen[str]]]:
    """The address of a master, and its two workers."""
    return processes.start_cluster(workers=2, memory="640m"), processes.workers


def kill_executor(worker: subprocess.Popen[str]) -> None:
    """Not gently; then wait until the worker has another in its place."""
    (victim,) = executors(worker)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: executors(worker) not in ([], [victim]), "another executor is in its place")
