"""One run of a plan by processes that are there: lets them meet, begin and end, and collects what came of it.

All leaves are known to the root before the first of them reads: a source that joined later would join behind the watermark of the
others, and its first events would be late.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Self

from headwater.edge.cluster import control
from headwater.edge.cluster.outcome import ClusterOutcome, joined
from headwater.edge.cluster.plan import ROOT, ClusterPlan
from headwater.edge.cluster.worker import Worker
from headwater.edge.errors import EdgeError
from headwater.edge.rates import SECOND_NS

#: All processes have heard of the begin by then.
BEGIN_SOON_NS = SECOND_NS // 20
#: The root has finished; leaves mostly hear so at once, and nothing depends on it.
GRACE_S = 2.0
#: To say what came of it, also at the very end of the time limit.
STOP_S = 10.0


class Round:
    """One run of a plan by the workers of a cluster, the root's first; one that is made anew takes the place of the old."""

    def __init__(self, plan: ClusterPlan, workers: list[Worker]) -> None:
        self._plan = plan
        self._workers = workers
        self._folder = None if plan.restart_root_s is None else tempfile.TemporaryDirectory(prefix="headwater-")
        self._addresses: dict[str, str] = {}
        self._begin_ns = 0
        self._killed_ns: int | None = None
        self._restarted_ns: int | None = None
        #: Whether the root has finished; when all must have; until when others are waited for; when the root is killed.
        self._is_over = False
        self._deadline_s = time.monotonic() + plan.limit_s
        self._enough_s: float | None = None
        self._kill_s: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def run(self) -> ClusterOutcome:
        """Run the plan to its end."""
        for worker in self._workers:
            worker.send(self._share(worker))
        for bound in self._each(control.Listening, "open its sources"):
            self._addresses |= bound.addresses
        self._say(control.Meet(self._addresses))
        self._each(control.Ready, "join")
        # Only now: to start a process and to load kernels takes processors too.
        quotas = self._bound_processors(self._workers)
        self._begin()
        self._until_finished()
        self._say(control.Stop())
        self._deadline_s, self._enough_s = max(self._deadline_s, time.monotonic() + STOP_S), None
        done = self._each(control.Done, "say what came of it")
        for worker in self._workers:
            worker.unbind()
        return self._outcome(done, quotas)

    # --- the stages ---

    def _share(self, worker: Worker) -> control.Share:
        is_root = ROOT in worker.names
        journal = Path(self._folder.name, ROOT) if self._folder is not None and is_root else None
        return control.Share(worker.names, self._plan.only(worker.names), self._addresses if is_root else {}, journal)

    def _say(self, command: control.Command) -> None:
        for worker in self._workers:
            worker.send(command)

    def _each(self, kind: type[Any], what: str) -> list[Any]:
        """Wait until every process has reported this; the reports in the order of the processes."""
        found: dict[int, control.Report] = {}
        missing = {worker.pid: worker for worker in self._workers}

        def late() -> str:
            return f"{', '.join(worker.title for worker in missing.values())} did not {what}"

        for worker, report in self._reports(late):
            if isinstance(report, kind):
                found[worker.pid] = report
                missing.pop(worker.pid, None)
            if not missing:
                break
        return [found[worker.pid] for worker in self._workers]

    def _bound_processors(self, workers: Sequence[Worker]) -> dict[str, str]:
        """Bound the processors of each process as the plan asks; returns how."""
        wanted = {worker: self._plan.cpus_of(worker.names) for worker in workers}
        return {worker.names[0]: worker.bind(cpus) for worker, cpus in wanted.items() if cpus is not None}

    def _begin(self) -> None:
        self._begin_ns = time.monotonic_ns() + BEGIN_SOON_NS
        self._say(control.Begin(self._begin_ns))
        if self._plan.restart_root_s is not None:
            self._kill_s = self._begin_ns / SECOND_NS + self._plan.restart_root_s

    def _until_finished(self) -> None:
        """Wait for the root, and after it for the leaves, but not for long."""
        missing = {ROOT, *(leaf.name for leaf in self._plan.leaves)}

        def late() -> str:
            return f"{', '.join(map(repr, sorted(missing)))} did not finish"

        for _, report in self._reports(late):
            if not isinstance(report, control.NodeFinished):
                continue
            missing.discard(report.name)
            if report.name == ROOT:
                self._is_over, self._enough_s, self._kill_s = True, time.monotonic() + GRACE_S, None
            if missing == {ROOT}:
                # Sources that have all ended end the stream; should something else hold it open, nothing more can come.
                self._workers[0].send(control.FlushRoot())
            if not missing:
                return

    def _restart_root(self) -> None:
        """Kill the root, and let another take its place, its address and its journal; the others are not told."""
        self._kill_s = None
        old, self._killed_ns = self._workers[0], time.monotonic_ns()
        old.dismiss(at_once=True)
        old.end()
        new = self._workers[0] = Worker(old.names)
        new.send(self._share(new))
        while not isinstance(self._checked(new, new.receive(self._deadline_s)), control.Listening):
            pass
        self._bound_processors([new])
        new.send(control.Meet(self._addresses))
        new.send(control.Begin(self._begin_ns))
        self._restarted_ns = time.monotonic_ns()

    # --- what processes say ---

    def _reports(self, late: Callable[[], str]) -> Iterator[tuple[Worker, control.Report]]:
        """Reports as they come, until it is enough; past the deadline, an error."""
        while True:
            by_control = {id(worker.control): worker for worker in self._workers}
            moments = (self._deadline_s, self._enough_s, self._kill_s)
            end_s = min(moment for moment in moments if moment is not None)
            ready = wait([worker.control for worker in self._workers], max(0.0, end_s - time.monotonic()))
            # The root first: what leaves say behind it may mean something else.
            for worker in sorted((by_control[id(connection)] for connection in ready), key=self._workers.index):
                yield worker, self._checked(worker, worker.receive())
            if ready:
                continue
            if end_s == self._kill_s:
                self._restart_root()
            elif end_s == self._enough_s:
                return
            else:
                raise EdgeError(f"the time limit is over: {late()}")

    def _checked(self, worker: Worker, report: control.Report) -> control.Report:
        """The report; an error if it tells of one."""
        match report:
            case control.Failed(reason):
                raise EdgeError(f"{worker.title} failed: {reason}")
            case control.NodeStopped(name, reason) if not self._is_over:
                raise EdgeError(f"node {name!r} has stopped: {reason}")
        return report

    def _outcome(self, done: Sequence[control.Done], quotas: dict[str, str]) -> ClusterOutcome:
        root = done[0]
        assert root.finished_ns is not None
        return ClusterOutcome(
            emissions=tuple(root.emissions),
            aside=joined(root.aside) if root.aside else None,
            begin_ns=self._begin_ns,
            finished_ns=root.finished_ns,
            nodes={node.name: node for each in done for node in each.nodes},
            quotas=quotas,
            killed_ns=self._killed_ns,
            restarted_ns=self._restarted_ns,
        )
