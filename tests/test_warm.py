"""`headwater warm`: afterwards nothing is left to compile."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.warm import Warmed

SOURCE = Path(__file__).parent.parent / "src"
WARM = "from headwater.cli import app; app(['warm'])"
#: Programs that a user might begin with.
FIRST = """
from headwater.demo import engine
from headwater.kernels.cache import KERNELS
engine.run(20_000, 7)
missed = {name: list(map(str, kernel.stats.cache_misses)) for name, kernel in KERNELS.items() if kernel.stats.cache_misses}
assert not missed, missed
"""


#: In a process of its own: what other tests have called does not count.
MET = """
from headwater.warm import warm
steps = []
done = warm(lambda what, number, count: steps.append((number, count)))
assert done.missing == (), done.missing
assert done.kernels > 150
assert [number for number, _ in steps] == list(range(steps[0][1]))
"""


def test_every_kernel_is_met_by_what_warm_runs():
    subprocess.run([sys.executable, "-c", MET], check=True, timeout=1800)


def test_warm_says_what_is_missing_and_that_nothing_could_be_written():
    done = Warmed(2, ("headwater.engine.x",), 5, {})
    assert not done.is_complete
    assert "headwater.engine.x: not met" in done.text()
    assert "NUMBA_CACHE_DIR" in done.text()


@pytest.mark.slow  # all kernels are compiled from nothing: minutes
def test_after_warm_a_first_query_compiles_nothing(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    kept = str(tmp_path / "kept")
    environ = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "NUMBA_CACHE_DIR": kept, "XDG_CACHE_HOME": kept}
    for program in (WARM, FIRST):
        subprocess.run([sys.executable, "-c", program], env=environ, cwd=tmp_path, check=True, timeout=1800)
    again = subprocess.run(
        [sys.executable, "-c", WARM], env=environ, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "; 0 were compiled" in again.stdout
