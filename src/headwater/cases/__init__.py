"""Test cases as data: read them from files, run them on a host, compare what comes out.

`check_files` is what `headwater check` calls. A host is anything that can play a history and finish partials; the
reference and the engine are two, others join by adding themselves to `HOSTS`.
"""

from __future__ import annotations

from headwater.cases.check import Outcome, check_files, read_cases, run_case
from headwater.cases.differences import explain_difference
from headwater.cases.hosts import HOSTS, EngineHost, Host, Played, ReferenceHost

__all__ = [
    "HOSTS",
    "EngineHost",
    "Host",
    "Outcome",
    "Played",
    "ReferenceHost",
    "check_files",
    "explain_difference",
    "read_cases",
    "run_case",
]
