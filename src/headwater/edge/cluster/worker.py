"""A process as the cluster sees it: started, talked to, and ended, whatever it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import Pipe

from headwater.edge.cluster.control import Command, Failed, Report
from headwater.edge.cluster.quota import Quota, bound
from headwater.edge.errors import EdgeError

#: How much of what a process has written before it died is shown.
LAST_WORDS_BYTES = 2000
END_S = 5.0


class Worker:
    """A process that runs some nodes of a cluster."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.control, theirs = Pipe()
        self._written = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as this)
        # Not multiprocessing's own way: it would run the user's main module once more in every process.
        command = [sys.executable, "-m", "headwater.edge.cluster.process", str(theirs.fileno())]
        paths = [path or os.getcwd() for path in sys.path]
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=self._written,
            stderr=subprocess.STDOUT,
        )
        theirs.close()
        self._quota: Quota | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def title(self) -> str:
        """Its nodes, as messages name them."""
        nodes = "node" if len(self.names) == 1 else "nodes"
        return f"{nodes} {', '.join(map(repr, self.names))}"

    def send(self, command: Command) -> None:
        try:
            self.control.send(command)
        except OSError:
            raise self._death() from None

    def receive(self, deadline_s: float | None = None) -> Report:
        """The next report; waits for it."""
        try:
            if deadline_s is not None and not self.control.poll(max(0.0, deadline_s - time.monotonic())):
                raise EdgeError(f"the time limit is over: {self.title} does not answer")
            report: Report = self.control.recv()
        except (EOFError, OSError):
            raise self._death() from None
        return report

    def _death(self) -> EdgeError:
        """The error that says why the process is gone; it may have said so itself."""
        try:
            while self.control.poll():
                report = self.control.recv()
                if isinstance(report, Failed):
                    return EdgeError(f"{self.title} failed: {report.reason}")
        except (EOFError, OSError):
            pass  # it died before it could say so: its exit code tells how
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return EdgeError(f"{self.title}: process {self.pid} does not answer any more")
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return EdgeError(f"{self.title}: process {self.pid} died {how}{self._last_words()}")

    def _last_words(self) -> str:
        size = self._written.seek(0, os.SEEK_END)
        self._written.seek(max(0, size - LAST_WORDS_BYTES))
        text = self._written.read().decode(errors="replace").strip()
        return f"; it wrote: {text}" if text else ""

    def dismiss(self, at_once: bool) -> None:
        """Ask it to end, or make it."""
        self.control.close()
        if at_once:
            self._process.kill()

    def end(self) -> None:
        """Wait until it has ended, and if it does not, make it."""
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.unbind()
        self._written.close()

    def bind(self, cpus: float) -> str:
        """Let it use no more than ``cpus`` processors; returns how that is enforced."""
        self._quota = bound(self.pid, cpus)
        return self._quota.how

    def unbind(self) -> None:
        """Lift the bound on its processors."""
        if self._quota is not None:
            self._quota.lift()
        self._quota = None
