"""Test cases as data: read them from files, run them on a host, compare what comes out.

`check_files` is what `headwater check` calls. A host is anything that can play a history and finish partials; the
reference, the engine and a tree of nodes are three, others join by adding themselves to `HOSTS`. Spark runs all cases of a file
at once, in `spark_host.py`.
"""

from __future__ import annotations

from headwater.cases.check import check_files, read_cases
from headwater.cases.differences import explain_difference
from headwater.cases.hosts import HOSTS, EngineHost, Host, Played, ReferenceHost
from headwater.cases.outcome import CaseOutcome, run_case
from headwater.cases.tree_host import EveryTree, TreeHost

HOSTS["tree"] = EveryTree()

__all__ = [
    "HOSTS",
    "CaseOutcome",
    "EngineHost",
    "EveryTree",
    "Host",
    "Played",
    "ReferenceHost",
    "TreeHost",
    "check_files",
    "explain_difference",
    "read_cases",
    "run_case",
]
