import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.edge.cluster.quota import PERIOD_US, bound
from headwater.errors import DataError


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process.pid
    process.kill()
    process.wait()


def test_a_control_group_of_the_first_version(tmp_path: Path):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1")
    quota = bound(1234, 0.5, tmp_path)
    assert quota.group is not None and "v1" in quota.how
    assert (quota.group / "cpu.cfs_quota_us").read_text() == str(PERIOD_US // 2)
    assert (quota.group / "cgroup.procs").read_text() == "1234"


def test_a_control_group_of_the_second_version(tmp_path: Path):
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory")
    quota = bound(1234, 1.5, tmp_path)
    assert quota.group is not None and "v2" in quota.how
    assert (quota.group / "cpu.max").read_text() == f"{PERIOD_US * 3 // 2} {PERIOD_US}"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinities")
def test_without_control_groups_whole_processors_are_bounded_by_place(tmp_path: Path, sleeper: int):
    quota = bound(sleeper, 1, tmp_path)
    assert quota.how.startswith("affinity") and len(os.sched_getaffinity(sleeper)) == 1


def test_what_cannot_be_bounded_is_said(tmp_path: Path, sleeper: int):
    assert bound(sleeper, 0.5, tmp_path).how.startswith("none")


def test_a_quota_of_nothing_is_refused():
    with pytest.raises(DataError, match="above 0"):
        bound(os.getpid(), 0)
