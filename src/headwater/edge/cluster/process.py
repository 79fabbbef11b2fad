"""In each process: makes its nodes with links and feeds, drives them in turn, and tells the cluster what happens.

``python -m headwater.edge.cluster.process FILE`` is what the cluster starts; it hears commands on the open file of that
number. When the cluster is gone that file ends, and so does the process. A process runs one plan after another, with new
nodes each time: what the first has compiled and loaded is there for the next.
"""

from __future__ import annotations

import gc
import select
import sys
import time
import traceback
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from headwater.edge.cluster import control
from headwater.edge.cluster.outcome import NodeOutcome
from headwater.edge.cluster.plan import ROOT, ClusterPlan, Leaf
from headwater.edge.feed import Feed, SourceReader
from headwater.edge.host import NodeHost
from headwater.edge.journal import Journal
from headwater.edge.links import LOOPBACK, Links, wait_for, zeromq
from headwater.edge.rates import SECOND_NS
from headwater.language.files.queries import modules_of
from headwater.node import LeafNode, Node, RelayNode, RootNode
from headwater.protocols.events import FlushAsked

#: No more than this waits for a link before a leaf stops reading: what it takes in a tenth of a second, within these bounds.
FULL_BYTES_MIN, FULL_BYTES_MAX = 1 << 16, 1 << 22


class Process:
    """The nodes of one process during one run."""

    def __init__(self, share: control.Share, connection: Connection[Any, Any]) -> None:
        self._parents = share.plan.parents
        self._connection = connection
        self._context = zeromq().Context()
        self._addresses = share.addresses
        self.hosts = [make_host(name, share, self._context) for name in share.names]
        self._told: set[object] = set()
        self._cpu_begin_s = 0.0

    def bind(self) -> None:
        """Listen where others dial, and say where that is."""
        hosts = [host for host in self.hosts if host.feed is None]
        bound = {host.name: host.links.bind(self._addresses.get(host.name, LOOPBACK)) for host in hosts}
        self._connection.send(control.Listening(bound))

    def run(self) -> None:
        """Drive the nodes until the cluster says stop."""
        links = [host.links for host in self.hosts]
        while True:
            # All of them have their turn before any is asked for more; one that hears something need not wait for it.
            is_busy = False
            for host in self.hosts:
                is_busy = host.turn() or is_busy
                is_busy = self._tend() or is_busy
            self._tell_news()
            until_ns = 0 if is_busy else min(host.next_ns() for host in self.hosts)
            if wait_for(links, until_ns, self._connection.fileno()) and self._is_over(self._connection.recv()):
                return

    def _tend(self) -> bool:
        """Let nodes answer at once that have heard something, or whose time has come."""
        if len(self.hosts) == 1:
            return False
        files = [file for host in self.hosts for file in host.links.files]
        readable = set(select.select(files, [], [], 0)[0])
        now_ns = time.monotonic_ns()
        called = [h for h in self.hosts if h.timer_ns() <= now_ns or not readable.isdisjoint(h.links.files)]
        return sum(host.turn(reads=False) for host in called) > 0

    def _is_over(self, command: control.Command) -> bool:
        match command:
            case control.Meet(addresses):
                for host in self.hosts:
                    parent = self._parents.get(host.name)
                    host.links.addresses = {} if parent is None else {parent: addresses[parent]}
                    host.start()
            case control.Begin(begin_ns):
                self._begin(begin_ns)
            case control.FlushRoot():
                self.hosts[0].handle(FlushAsked())
            case control.Stop():
                self._connection.send(self._done())
                return True
        return False

    def _begin(self, begin_ns: int) -> None:
        self._cpu_begin_s = time.process_time()
        for host in self.hosts:
            host.work_ns = 0
            if host.feed is not None:
                host.feed.begin_ns = begin_ns

    def _tell_news(self) -> None:
        if all(host.is_ready for host in self.hosts):
            self._tell(control.Ready())
        for host in self.hosts:
            if host.is_finished:
                self._tell(control.NodeFinished(host.name))
            if host.stopped is not None:
                self._tell(control.NodeStopped(host.name, host.stopped))

    def _tell(self, report: control.Report) -> None:
        """Send a report to the cluster, once."""
        if report not in self._told:
            self._told.add(report)
            self._connection.send(report)

    def _done(self) -> control.Done:
        cpu_s = time.process_time() - self._cpu_begin_s
        work_ns = max(1, sum(host.work_ns for host in self.hosts))
        nodes = [outcome_of(host, self._parents, cpu_s * host.work_ns / work_ns) for host in self.hosts]
        first = self.hosts[0]
        return control.Done(nodes, first.emissions, first.aside, first.finished_ns)

    def close(self) -> None:
        for host in self.hosts:
            host.links.close()
            if host.journal is not None:
                host.journal.close()
        self._context.destroy(linger=0)


def make_host(name: str, share: control.Share, context: Any) -> NodeHost:
    """The node of this name and its surroundings."""
    plan = share.plan
    try:
        full_bytes = FULL_BYTES_MAX if plan.bits_per_s is None else int(plan.bits_per_s / 80)
        full_bytes = min(max(full_bytes, FULL_BYTES_MIN), FULL_BYTES_MAX)
        feed = next((make_feed(leaf, plan) for leaf in plan.leaves if leaf.name == name), None)
        links = Links(name, bits_per_s=plan.bits_per_s, full_bytes=full_bytes, context=context)
        if name == ROOT and share.journal is not None:
            return make_kept_root(plan, links, Journal(share.journal))
        return NodeHost(name, make_node(name, plan), links, feed)
    except Exception as error:
        error.add_note(f"node {name!r} could not be made")
        raise


def make_kept_root(plan: ClusterPlan, links: Links, journal: Journal) -> NodeHost:
    """The root as its journal has it; anew if that is empty."""
    kept = journal.read()
    if kept.checkpoint is None:
        return NodeHost(ROOT, make_root(plan, is_recorded=True), links, journal=journal)
    root, repeated = RootNode.recover(kept.checkpoint, kept.records)
    host = NodeHost(ROOT, root, links, journal=journal)
    host.repeat(kept.emissions, repeated)
    return host


def make_root(plan: ClusterPlan, is_recorded: bool = False) -> RootNode:
    arguments = {"settings": plan.leaf_settings, **plan.root_settings}
    if is_recorded:
        arguments["settings"] = replace(arguments["settings"], is_recorded=True)
    return RootNode(ROOT, plan.queries, **arguments)


def make_node(name: str, plan: ClusterPlan) -> Node:
    if name == ROOT:
        return make_root(plan)
    make = RelayNode if any(relay.name == name for relay in plan.relays) else LeafNode
    return make(name, plan.parents[name], settings=plan.leaf_settings, modules=modules_of(plan.queries))


def make_feed(leaf: Leaf, plan: ClusterPlan) -> Feed:
    readers = [SourceReader(source.name, source.open(), source.pace) for source in leaf.sources]
    return Feed(readers, plan.events_max, plan.slot_ns)


def outcome_of(host: NodeHost, parents: dict[str, str], cpu_s: float) -> NodeOutcome:
    """What a node did."""
    links = host.links.links.values()
    above = host.links.links.get(parents.get(host.name, ""))
    return NodeOutcome(
        host.name,
        cpu_s,
        host.work_ns / SECOND_NS,
        events=0 if host.feed is None else host.feed.events,
        queued_bytes_max=max((link.queued_bytes_max for link in links), default=0),
        report=dict(getattr(host.node, "count_report", dict)()),
        notes=dict(host.notes),
        **({} if above is None else {"up": above.sent, "down": above.received}),
    )


def serve(connection: Connection[Any, Any]) -> None:
    """Run one share after another until there are no more."""
    while True:
        share = connection.recv()
        # What is loaded stays: a garbage collection of all of it takes as long as several windows, and would free nothing.
        gc.collect()
        gc.freeze()
        process = Process(share, connection)
        try:
            process.bind()
            process.run()
        finally:
            process.close()


def main(file: int) -> None:
    """Be a process of a cluster; an error is told to it with everything that is known."""
    connection: Connection[Any, Any] = Connection(file)
    try:
        serve(connection)
    except (EOFError, ConnectionError):
        pass  # the cluster is gone, or does not need this process any more
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        connection.send(control.Failed("\n".join([reason, *getattr(error, "__notes__", []), traceback.format_exc()])))


if __name__ == "__main__":
    main(int(sys.argv[1]))
