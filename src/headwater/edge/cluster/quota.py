"""How many processors a process may use: by a control group where we may make one, else by where it may run.

Linux has these two. A control group bounds any share of time, of all threads; to run on some processors only bounds whole
ones, which others may use too. Where neither can be had that is said, and the process runs on as it was.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import DataError, shown

#: The kernel bounds the time that is used in each such period; shorter ones spread it better.
PERIOD_US = 10_000
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Quota:
    """A bound that was set on a process; ``how`` says by which means, or why there is none."""

    how: str
    pid: int
    group: Path | None = None
    #: Where it could run before.
    places: tuple[int, ...] = ()

    def lift(self) -> None:
        """Let the process run as before the bound; it may have ended."""
        # An error here is one of cleaning up: it must not hide what came of the run.
        with contextlib.suppress(OSError):
            if self.places:
                _place(self.pid, self.places)
        if self.group is None:
            return
        with contextlib.suppress(OSError):
            (self.group.parent / "cgroup.procs").write_text(str(self.pid))
        with contextlib.suppress(OSError):
            self.group.rmdir()


def bound(pid: int, cpus: float, root: Path = CGROUPS) -> Quota:
    """Let a process use no more than ``cpus`` processors from now on."""
    if not cpus > 0:
        raise DataError(f"cpus is {shown(cpus)}: give a number above 0, or None for no bound")
    for write in (_bound_by_v2, _bound_by_v1):
        group = root / ("cpu" if write is _bound_by_v1 else "") / f"headwater-{os.getpid()}-{pid}"
        try:
            return write(group, pid, cpus)
        except OSError:
            Quota("", pid, group).lift()
    return _bound_by_place(pid, cpus)


def _bound_by_v2(group: Path, pid: int, cpus: float) -> Quota:
    # Asked first: a plain directory could be made where no group can.
    if "cpu" not in (group.parent / "cgroup.subtree_control").read_text().split():
        raise OSError("processor time is not shared out here")
    group.mkdir()
    (group / "cpu.max").write_text(f"{_quota_us(cpus)} {PERIOD_US}")
    (group / "cgroup.procs").write_text(str(pid))
    return Quota(f"control group (v2), {cpus:g} processors", pid, group)


def _bound_by_v1(group: Path, pid: int, cpus: float) -> Quota:
    if not (group.parent / "cpu.cfs_quota_us").exists():
        raise OSError("processor time is not shared out here")
    group.mkdir()
    (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    (group / "cpu.cfs_quota_us").write_text(str(_quota_us(cpus)))
    (group / "cgroup.procs").write_text(str(pid))
    return Quota(f"control group (v1), {cpus:g} processors", pid, group)


def _quota_us(cpus: float) -> int:
    # The kernel takes no less than a millisecond.
    return max(1000, round(cpus * PERIOD_US))


def _bound_by_place(pid: int, cpus: float) -> Quota:
    if not hasattr(os, "sched_setaffinity"):
        return Quota("none: this system has neither control groups nor affinities", pid)
    places = sorted(os.sched_getaffinity(pid))
    count = math.ceil(cpus)
    if count != cpus:
        return Quota(f"none: {cpus:g} processors need a control group, and none can be made here", pid)
    # Not always the first ones: bounded processes would crowd there.
    first = pid % len(places)
    chosen = {places[(first + number) % len(places)] for number in range(min(count, len(places)))}
    _place(pid, chosen)
    return Quota(f"affinity, on processors {sorted(chosen)}", pid, places=tuple(places))


def _place(pid: int, places: Collection[int]) -> None:
    """Let all threads of a process run on these processors: those that are there do not follow the first."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), places)
