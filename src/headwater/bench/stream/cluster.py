"""A standalone cluster on this machine for a benchmark: a master and workers from the installed package."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import headwater
from headwater.errors import HeadwaterError

WAIT_SECONDS = 90.0


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    """Until it is so; an error if that takes too long."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise HeadwaterError(f"{what} did not come within {WAIT_SECONDS:g} s")
        time.sleep(0.02)


class SparkCluster:
    """Processes in one folder, where their logs are; see `started`."""

    def __init__(self, folder: Path, workers: int) -> None:
        import pyspark

        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []
        home = Path(pyspark.__file__).parent
        source = str(Path(headwater.__file__).parent.parent)
        paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYTHONPATH": os.pathsep.join(paths),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        # A driver of its own talks to no gateway of this process.
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE", "MASTER"):
            self._environment.pop(name, None)
        self._launcher = str(home / "bin" / "spark-class")
        self._worker_count = workers
        self.workers: list[subprocess.Popen[str]] = []
        self.address = ""

    def open(self) -> None:
        """Start the master, and the workers when it listens."""
        launcher, port = self._launcher, free_port()
        common = ["--host", "127.0.0.1", "--webui-port", "0"]
        self.start("master", launcher, "org.apache.spark.deploy.master.Master", *common, "--port", str(port))
        wait_for(lambda: is_open(port), "the cluster's master")
        self.address = f"spark://127.0.0.1:{port}"
        own = ["--cores", "1", "--memory", "1g"]
        for number in range(self._worker_count):
            worker = (launcher, "org.apache.spark.deploy.worker.Worker", *common, *own)
            place = ("--work-dir", str(self._folder / f"work-{number}"))
            self.workers.append(self.start(f"worker-{number}", *worker, *place, self.address))

    def start(self, name: str, *command: str, is_heard: bool = False) -> subprocess.Popen[str]:
        """A process of this cluster; ``is_heard``: somebody reads what it says on stdout."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE if is_heard else subprocess.DEVNULL,
                stderr=log,
                text=True,
                cwd=self._folder,
                env=self._environment,
            )
        self._processes.append(process)
        return process

    def executors(self) -> list[int]:
        """The processes in which tasks run, by the order of their workers."""
        return [process for worker in self.workers for process in executors(worker)]

    def kill(self, executor: int) -> None:
        """Not gently."""
        os.kill(executor, signal.SIGKILL)

    def stop(self) -> None:
        """Everything, and all that it has started."""
        import psutil

        # Listed first: children of a process that is gone are nobody's.
        everything = [
            child
            for process in self._processes
            if process.poll() is None
            for child in psutil.Process(process.pid).children(recursive=True)
        ]
        for process in reversed(self._processes):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for child in everything:
            with suppress(psutil.NoSuchProcess):
                child.kill()


@contextmanager
def started(folder: Path, workers: int) -> Iterator[SparkCluster]:
    """A cluster for the length of a `with`."""
    cluster = SparkCluster(folder, workers)
    try:
        cluster.open()
        yield cluster
    finally:
        cluster.stop()


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


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
