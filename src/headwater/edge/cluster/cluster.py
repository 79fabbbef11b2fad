"""Runs plans on this machine, each with its nodes in processes. Whatever goes wrong, the node is named and no process is left."""

from __future__ import annotations

from typing import Self

from headwater.edge.cluster.outcome import ClusterOutcome
from headwater.edge.cluster.plan import ClusterPlan
from headwater.edge.cluster.round import Round
from headwater.edge.cluster.worker import Worker
from headwater.edge.errors import EdgeError


def run(plan: ClusterPlan) -> ClusterOutcome:
    """Run a plan, once, after a warm-up if it asks for one."""
    with Cluster(plan) as cluster:
        if plan.warm_up_events:
            cluster.run(plan.warm_up())
        return cluster.run(plan)


class Cluster:
    """The processes of a plan; any plan with the same nodes in the same processes can be run in them, one after another."""

    def __init__(self, plan: ClusterPlan) -> None:
        plan.check()
        self._groups = plan.groups
        self.workers: list[Worker] = []
        try:
            for names in self._groups:
                self.workers.append(Worker(names))
        except BaseException:
            self.close(at_once=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=kind is not None)

    def run(self, plan: ClusterPlan) -> ClusterOutcome:
        """Run a plan to its end; after an error the cluster is of no use any more."""
        plan.check()
        if plan.groups != self._groups:
            raise EdgeError(f"this cluster has other processes than the plan needs: {self._groups}")
        with Round(plan, self.workers) as one:
            return one.run()

    def close(self, at_once: bool = False) -> None:
        """End all processes, whatever they do."""
        for worker in self.workers:
            worker.dismiss(at_once)
        for worker in self.workers:
            worker.end()
