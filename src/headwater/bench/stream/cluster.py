"""A standalone Spark cluster on this machine, for benchmarks and tests: a master and workers from the installed package."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import headwater
from headwater.errors import HeadwaterError

WAIT_SECONDS = 90.0


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    """Wait until ``is_so``; an error if that takes too long."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise HeadwaterError(f"{what} did not come within {WAIT_SECONDS:g} s")
        time.sleep(0.02)


class SparkProcesses:
    """Daemons and drivers of Spark, each in a process group of its own, with their logs in one folder; `close` ends them all.

    ``environment``: what they inherit beside what Spark needs.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        import pyspark

        self.folder = folder
        self.started: dict[str, subprocess.Popen[str]] = {}
        #: The workers of the cluster.
        self.workers: list[subprocess.Popen[str]] = []
        self._home = Path(pyspark.__file__).parent
        source = str(Path(headwater.__file__).parent.parent)
        paths = [environment.pop("PYTHONPATH", ""), source, os.environ.get("PYTHONPATH", "")]
        self._environment = os.environ | {
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            # What executors inherit from their worker, and tasks from them.
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            **environment,
        }
        # A driver of its own talks to no gateway of this process.
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE", "MASTER"):
            self._environment.pop(name, None)

    def start_cluster(self, workers: int, memory: str = "1g") -> str:
        """Start a master, and workers of one core when it listens; returns its address."""
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            port = int(server.getsockname()[1])
        address = f"spark://127.0.0.1:{port}"
        launcher = str(self._home / "bin" / "spark-class")
        common = ("--host", "127.0.0.1", "--webui-port", "0")
        self.start("master", launcher, "org.apache.spark.deploy.master.Master", *common, "--port", str(port))
        wait_for(lambda: is_open(port), "the cluster's master")
        worker = (launcher, "org.apache.spark.deploy.worker.Worker", *common, "--cores", "1", "--memory", memory)
        for name in (f"worker-{number}" for number in range(workers)):
            self.workers.append(self.start(name, *worker, "--work-dir", str(self.folder / name), address))
        return address

    def start(self, name: str, *command: str, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start a program; what it says on stderr is its log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{name}.log").open("w") as log:
            self.started[name] = subprocess.Popen(
                command,
                stdout=stdout,
                stderr=log,
                text=True,
                cwd=self.folder,
                env=self._environment,
                start_new_session=True,
            )
        return self.started[name]

    def executors(self) -> list[int]:
        """The processes in which tasks run, by the order of their workers."""
        return [process for worker in self.workers for process in executors(worker)]

    def close(self) -> None:
        """End everything, and all that it has started."""
        import psutil

        # Listed first: children of a process that is gone cannot be found any more.
        everything = [
            child
            for process in self.started.values()
            if process.poll() is None
            for child in psutil.Process(process.pid).children(recursive=True)
        ]
        for process in reversed(self.started.values()):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for child in everything:
            with suppress(psutil.NoSuchProcess):
                child.kill()


def executors(worker: subprocess.Popen[str]) -> list[int]:
    """The JVMs in which the tasks of this worker run."""
    import psutil

    found = []
    for child in psutil.Process(worker.pid).children(recursive=True):
        # Some may end while they are looked at.
        with suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in part for part in child.cmdline()):
                found.append(child.pid)
    return found


def is_open(port: int) -> bool:
    """Whether a server listens."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
