"""A real cluster from the installed package: a master and two workers on this machine, and executors that can be killed."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from headwater.bench.stream.cluster import executors, is_open
from spark.conftest import TESTS, free_port
from waiting import wait_until


def environment() -> dict[str, str]:
    """What the processes of a cluster and its drivers inherit."""
    import pyspark

    paths = [str(TESTS.parent / "src"), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    found = os.environ | {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        # Half a dozen JVMs that live for seconds: they need not compile well.
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # What executors inherit from their worker, and tasks from them.
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    # A driver of its own talks to no gateway of the tests' shared session.
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE", "MASTER"):
        found.pop(name, None)
    return found


class Processes:
    """Processes of a test, each in a group of its own; none outlives it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._started: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, *command: str, stdout=subprocess.DEVNULL) -> subprocess.Popen[str]:
        with (self._folder / f"{name}.log").open("w") as log:
            self._started[name] = subprocess.Popen(
                command,
                stdout=stdout,
                stderr=log,
                text=True,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,
            )
        return self._started[name]

    def stop(self) -> None:
        import psutil

        # Listed first: children of a process that is gone are nobody's.
        everything = [
            each
            for process in self._started.values()
            if psutil.pid_exists(process.pid)
            for each in psutil.Process(process.pid).children(recursive=True)
        ]
        for process in reversed(self._started.values()):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for each in everything:
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def logs(self) -> str:
        texts = {name: (self._folder / f"{name}.log").read_text()[-3000:] for name in self._started}
        return "\n".join(f"--- {name}\n{text}" for name, text in texts.items())


def start_cluster(processes: Processes, folder: Path) -> tuple[str, list[subprocess.Popen[str]]]:
    import pyspark

    launcher, port = str(Path(pyspark.__file__).parent / "bin" / "spark-class"), str(free_port())
    common = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = processes.start("master", launcher, "org.apache.spark.deploy.master.Master", *common, "--port", port)
    wait_until(lambda: is_open(int(port)) or master.poll() is not None, "the master listens")
    address = f"spark://127.0.0.1:{port}"
    own = ["--cores", "1", "--memory", "640m"]
    workers = []
    for name in ("worker-1", "worker-2"):
        work = ["--work-dir", str(folder / name)]
        workers.append(
            processes.start(name, launcher, "org.apache.spark.deploy.worker.Worker", *common, *own, *work, address)
        )
    return address, workers


def kill_executor(worker: subprocess.Popen[str]) -> None:
    """Not gently; then wait until the worker has another in its place."""
    (victim,) = executors(worker)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: executors(worker) not in ([], [victim]), "another executor is in its place")
